"""The face's own types: tensors, dtypes, devices, shapes; promotion, printing, writing in place."""
