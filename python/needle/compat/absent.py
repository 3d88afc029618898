"""Names of PyTorch that needle does not have, and what to write instead.

The text ends the AttributeError of the module that is asked for such a name.
"""

_NUMPY = "use numpy.linalg on x.numpy(), which has no gradient"
_COMPLEX = "there are no complex numbers"
_NO_GPU = "delete it: there is one process, whose threads set_num_threads chooses"

INSTEAD: dict[str, dict[str, str]] = {
    "needle": {
        "arcsin": "use asin", "arccos": "use acos", "arctan": "use atan", "arctan2": "use atan2",
        "erfinv": "write it as an operator of your own, see docs/custom-op.md",
        "linalg": _NUMPY, "inverse": _NUMPY, "svd": _NUMPY, "det": _NUMPY, "cholesky": _NUMPY,
        "fft": _COMPLEX, "complex64": _COMPLEX, "polar": _COMPLEX, "view_as_real": _COMPLEX,
        "backends": "delete it: there is no cuDNN, and results do not depend on threads",
        "use_deterministic_algorithms": "delete it: results are the same in each run",
        "multiprocessing": _NO_GPU,
        "distributions": "sample with randn, bernoulli or multinomial; log-probabilities are "
        "log_softmax(scores, -1).gather(-1, chosen)",
        "set_default_dtype": "give dtype=, or cast a model: model.double()",
        "get_default_dtype": "it is float32",
        "vmap": "write the batch as an axis; derivatives of rows are in jacobian",
        "func": "grad, vjp, jvp, jacobian and hessian are functions of needle",
        "onnx": "use needle.export, which writes a program with its weights, or C",
        "profiler": "use the profile() of a compiled function, or `needle explain`",
        "scatter_reduce": "use scatter_add or index_add; for means, divide by bincount",
        "quantile": "use sort and an index", "kthvalue": "use sort(x)[k - 1]",
        "histc": "use bincount of rounded values", "bucketize": "use searchsorted(bounds, x)",
        "nan_to_num": "use where(isnan(x), 0.0, x)", "count_nonzero": "use x.ne(0).sum()",
        "diff": "use x[1:] - x[:-1]", "dist": "use norm(a - b)", "vdot": "use dot(a, b)",
        "logaddexp": "use logsumexp(stack([a, b]), 0)", "exp2": "use 2 ** x",
        "erfc": "use 1 - erf(x)", "trunc": "use sign(x) * floor(abs(x))",
        "tensordot": "use einsum", "kron": "use einsum", "cross": "use einsum",
        "var_mean": "use var and mean", "std_mean": "use std and mean",
        "take_along_dim": "use take_along_axis", "true_divide": "use divide",
        "ravel": "use flatten", "range": "use arange", "bitwise_not": "use ~x",
        "flipud": "use flip(x, 0)", "fliplr": "use flip(x, 1)",
        "normal": "use randn(*size, mean=, std=)",
        "randint_like": "use randint(low, high, x.shape)",
        "tril_indices": "use nonzero(tril(ones(n, n)), as_tuple=True)",
        "triu_indices": "use nonzero(triu(ones(n, n)), as_tuple=True)",
    },
    "needle.autograd": {
        "Function": "derive from needle.TensorOp, with compute and gradient, see docs/custom-op.md",
        "Variable": "use the tensor itself",
        "gradcheck": "use needle.testing.check_grads",
        "detect_anomaly": "use needle.detect_anomaly()",
        "set_detect_anomaly": "use with needle.detect_anomaly():",
        "functional": "use needle.jacobian and needle.hessian",
    },
    "needle.nn": {
        "DataParallel": _NO_GPU, "parallel": "use needle.distributed.DistributedDataParallel",
        "SyncBatchNorm": "use needle.distributed.SyncBatchNorm",
        "LazyLinear": "use Linear(in_features, out_features)",
        "LazyConv2d": "use Conv2d(in_channels, out_channels, kernel_size)",
        "EmbeddingBag": "use Embedding, and sum or mean over the axis of the bag",
        "CTCLoss": "there is no replacement yet",
        "Unfold": "use functional.unfold", "Fold": "use functional.fold",
        "ConstantPad2d": "use functional.pad(x, pad, value=)",
        "ReplicationPad2d": "use functional.pad(x, pad, mode='replicate')",
        "UpsamplingBilinear2d": "use Upsample(mode='bilinear', align_corners=True)",
        "UpsamplingNearest2d": "use Upsample",
        "PairwiseDistance": "use needle.norm(a - b + 1e-6, dim=-1)",
    },
    "needle.nn.functional": {
        "ctc_loss": "there is no replacement yet",
        "grid_sample": "there is no replacement yet",
        "upsample": "use interpolate",
        "dropout2d": "use nn.Dropout2d",
        "pairwise_distance": "use needle.norm(a - b + 1e-6, dim=-1)",
        "embedding_bag": "use embedding, and sum or mean over the axis of the bag",
        "multi_head_attention_forward": "use scaled_dot_product_attention",
    },
    "needle.optim": {
        **dict.fromkeys(("RAdam", "NAdam", "Adamax", "SparseAdam"), "use Adam or AdamW"),
        **dict.fromkeys(("ASGD", "Rprop"), "use SGD"),
        "LBFGS": "use Adam; steps that call the model several times are not supported",
        "swa_utils": "use ExponentialMovingAverage",
    },
    "needle.optim.lr_scheduler": {
        "CyclicLR": "use OneCycleLR, or LambdaLR",
        "ConstantLR": "use LambdaLR, whose function gives the factor",
        "MultiplicativeLR": "use LambdaLR, whose function gives the whole factor",
        "_LRScheduler": "derive from LRScheduler and define at(base, t, i)",
    },
}  # fmt: skip
