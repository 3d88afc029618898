"""The public names of `torch`, by the file that has them; `new=old` is another name there.

Stands with the package: `__init__.py` looks names up here when they are first asked for.
"""

from __future__ import annotations

TABLE: dict[str, str] = {
    "core.tensor": "Tensor",
    "core.device": "device Size",
    "core.dtypes": (
        "dtype float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool=bool_ "
        "float=float32 double=float64 half=float16 short=int16 int=int32 long=int64 "
        "get_default_dtype set_default_dtype promote_types can_cast result_type finfo iinfo"
    ),
    "core.constants": (
        "strided contiguous_format preserve_format channels_last channels_last_3d inf nan pi e "
        "newaxis layout memory_format"
    ),
    "core.typed": (
        "FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor "
        "IntTensor LongTensor BoolTensor"
    ),
    "core.printing": "set_printoptions",
    "core.methods": (
        "numel equal isclose allclose is_floating_point is_complex is_signed is_same_size"
    ),
    "core.normalizing": "softmax log_softmax",
    "core.settings": (
        "is_tensor is_storage get_num_threads set_num_threads get_num_interop_threads "
        "set_num_interop_threads set_default_device get_default_device set_default_tensor_type "
        "use_deterministic_algorithms are_deterministic_algorithms_enabled "
        "is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode "
        "get_deterministic_debug_mode set_float32_matmul_precision get_float32_matmul_precision "
        "is_inference_mode_enabled is_warn_always_enabled set_warn_always typename "
        "is_autocast_enabled set_flush_denormal is_inference is_nonzero __version__ version "
        "is_anomaly_enabled is_autocast_cpu_enabled get_autocast_dtype"
    ),
    "functions.creation": (
        "tensor as_tensor asarray from_numpy from_dlpack frombuffer zeros ones empty full "
        "zeros_like ones_like empty_like full_like empty_strided arange range linspace logspace "
        "eye scalar_tensor tril_indices triu_indices hann_window hamming_window blackman_window "
        "bartlett_window kaiser_window"
    ),
    "functions.arithmetic": (
        "add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod "
        "pow float_power atan2 arctan2 maximum minimum fmax fmin eq ne not_equal lt less le "
        "less_equal gt greater ge greater_equal logical_and logical_or logical_xor logical_not "
        "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift "
        "copysign hypot logaddexp logaddexp2 xlogy lerp addcmul addcdiv gcd lcm nextafter ldexp "
        "heaviside"
    ),
    "functions.pointwise": (
        "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin arcsin acos arccos atan "
        "arctan sinh cosh tanh sigmoid erf erfc erfinv lgamma digamma polygamma asinh arcsinh "
        "acosh arccosh atanh arctanh sinc i0 floor ceil trunc fix round frac abs absolute neg "
        "negative positive sign sgn signbit square reciprocal logit deg2rad rad2deg isnan isinf "
        "isfinite isposinf isneginf isreal clamp clip clamp_min clamp_max nan_to_num relu "
        "threshold prelu frexp conj real imag resolve_conj resolve_neg conj_physical angle"
    ),
    "functions.reduction": (
        "sum nansum mean nanmean prod var std var_mean std_mean argmax argmin max min amax amin "
        "aminmax any all count_nonzero logsumexp norm dist median nanmedian quantile nanquantile"
    ),
    "functions.shape": (
        "reshape flatten ravel unflatten squeeze unsqueeze transpose swapaxes swapdims permute "
        "movedim moveaxis t adjoint broadcast_to broadcast_shapes broadcast_tensors tile "
        "repeat_interleave flip fliplr flipud roll rot90 diagonal diag diag_embed diagflat "
        "diagonal_scatter tril triu as_strided clone narrow select meshgrid atleast_1d "
        "atleast_2d atleast_3d vander"
    ),
    "functions.joining": (
        "cat concat concatenate stack hstack vstack row_stack dstack column_stack block_diag "
        "cartesian_prod combinations split split_with_sizes chunk tensor_split hsplit vsplit "
        "dsplit unbind"
    ),
    "functions.indexing": (
        "gather take_along_dim take index_select masked_select masked_fill masked_scatter where "
        "nonzero argwhere scatter scatter_add scatter_reduce index_add index_copy index_fill "
        "index_put put select_scatter slice_scatter index_reduce"
    ),
    "functions.sorting": (
        "sort argsort msort topk kthvalue mode unique unique_consecutive isin bincount histc "
        "histogram searchsorted bucketize cumsum cumprod logcumsumexp cummax cummin diff "
        "trapezoid trapz"
    ),
    "functions.linear": (
        "matmul mm bmm mv dot vdot inner outer ger addmm addmv addr baddbmm addbmm chain_matmul "
        "matrix_power trace einsum tensordot kron cross cdist cov corrcoef cosine_similarity"
    ),
    "functions.inplace": (
        "abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ "
        "asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ "
        "detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ "
        "ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ "
        "relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ threshold_ trunc_ "
        "xlogy_ zero_ detach"
    ),
    "functions.others": (
        "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy "
        "permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy "
        "transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy unsafe_chunk "
        "unsafe_split unsafe_split_with_sizes as_strided_scatter fill unravel_index renorm "
        "cumulative_trapezoid gradient nonzero_static empty_permuted mvlgamma resize_as_ igamma "
        "igammac is_distributed"
    ),
    "nn.functional.under_torch": (
        "dropout dropout_ alpha_dropout embedding batch_norm layer_norm group_norm"
    ),
    "nn.functional": (
        "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
        "adaptive_avg_pool1d avg_pool1d max_pool1d max_pool2d max_pool3d bilinear celu celu_ "
        "selu selu_ hardshrink channel_shuffle pixel_shuffle pixel_unshuffle pairwise_distance "
        "pdist rms_norm"
    ),
    "linalg.functions": "det slogdet logdet inverse=inv pinverse",
    "random.generator": (
        "Generator default_generator manual_seed seed initial_seed get_rng_state set_rng_state"
    ),
    "random.sampling": (
        "rand randn randint randperm rand_like randn_like randint_like normal bernoulli "
        "multinomial poisson"
    ),
    "autograd.modes": ("no_grad enable_grad set_grad_enabled inference_mode is_grad_enabled"),
    "files.saving": "save load",
    "run.install": "install",
    "amp": "autocast GradScaler",
    "jit.compiling": "compile",
    "func.transforms": "vmap",
    "sparse.coo": "sparse_coo_tensor spmm",
}

# Modules that are attributes of `torch`.
MODULES = (
    "nn", "optim", "utils", "autograd", "func", "amp", "cuda", "backends", "jit", "special",
    "accelerator", "distributions", "linalg", "fft", "sparse", "random", "return_types", "mps",
    "cpu", "version", "testing", "profiler", "multiprocessing", "hub", "xpu", "serialization",
    "types", "overrides", "compiler", "distributed", "onnx", "functional", "storage", "library",
    "quantization", "package", "fx", "export", "nested", "masked", "signal", "torch_version",
)  # fmt: skip


def places() -> dict[str, tuple[str, str]]:
    """name -> (the file that has it, its name there)"""
    found: dict[str, tuple[str, str]] = {}
    for module, names in TABLE.items():
        for name in names.split():
            public, is_other, own = name.partition("=")
            found[public] = (module, own if is_other else public)
    return found
