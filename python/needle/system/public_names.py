"""The public names of packages by the module that has them, for later.py; methods of Tensor by the
file that has them, for ops/tensor_table.py.

Written by tools/public_names.py from the packages' imports for type checkers, each file's `__all__`
and METHODS. `new=old` is a name that is another one there, `new=` the module itself, `*` all names
that the module, a package, has in this table.
"""

PUBLIC_NAMES: dict[str, dict[str, str]] = {
    "needle": {
        "needle.autograd": "autograd=",
        "needle.data": "data=",
        "needle.distributed": "distributed=",
        "needle.init": "init=",
        "needle.io": "io=",
        "needle.nn": "nn=",
        "needle.ops": "ops= *",
        "needle.optim": "optim=",
        "needle.testing": "testing=",
        "needle.compat.amp": "amp= autocast",
        "needle.compat.utils": "utils=",
        "needle.course.backend_ndarray": "backend_ndarray=",
        "needle.course.backend_numpy": "backend_numpy=",
        "needle.course.backend_selection": (
            "backend_selection= BACKEND Device NDArray all_devices array_api cpu cpu_numpy cuda "
            "default_device"
        ),
        "needle.train.models": "models=",
        "needle.autograd.grad_mode": (
            "is_grad_enabled set_grad_enabled no_grad inference_mode enable_grad"
        ),
        "needle.autograd.graph": "Observer",
        "needle.compat.torch_names": "allclose is_tensor numel",
        "needle.init.basic": (
            "full ones zeros empty full_like ones_like zeros_like empty_like arange linspace eye "
            "one_hot rand randn randb randint randperm rand_like randn_like tensor asarray "
            "as_tensor from_numpy from_dlpack"
        ),
        "needle.init.sampling": "multinomial bernoulli",
        "needle.transforms.functions": "vjp value_and_grad grad jvp jacobian hessian",
        "needle.transforms.checkpoint": "checkpoint",
        "needle.compiler.control.functions": "cond scan while_loop",
        "needle.compiler.errors": "TraceError",
        "needle.compiler.export.files": "export load_exported",
        "needle.compiler.function": "jit",
        "needle.dtype": (
            "DType float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool_ finfo "
            "iinfo"
        ),
        "needle.ndarray.random": (
            "Generator default_generator manual_seed get_rng_state set_rng_state"
        ),
        "needle.backend.device": "memory_stats",
        "needle.backend.precision": "get_float32_matmul_precision set_float32_matmul_precision",
        "needle.ndarray.kernels.c_kernel": "CKernel",
        "needle._native": "get_num_threads release_memory reset_peak_memory set_num_threads",
        "needle.compat.names": (
            "half float double short int long bool device Size inf nan pi channels_last "
            "contiguous_format preserve_format"
        ),
        "needle.compat.typed": (
            "FloatTensor DoubleTensor LongTensor IntTensor ByteTensor BoolTensor"
        ),
        "needle.autograd.anomaly": "AnomalyError detect_anomaly",
        "needle.io.checkpoint": "Checkpoint",
        "needle.io.saving": "save load",
        "needle.nn.summary": "summary",
        "needle.train.trainer": "Trainer",
    },
    "needle.data": {
        "needle.data.transforms": (
            "transforms= Transform Compose RandomFlipHorizontal RandomCrop Normalize "
            "RandomErasing Mixup"
        ),
        "needle.data.bundled": "digits",
        "needle.data.cifar10": "CIFAR10Dataset",
        "needle.data.dataset": (
            "Dataset IterableDataset NDArrayDataset TensorDataset Subset ConcatDataset "
            "random_split collate"
        ),
        "needle.data.distributed": "DistributedSampler",
        "needle.data.loader": "DataLoader",
        "needle.data.mnist": "MNISTDataset MNIST FashionMNIST",
        "needle.data.sampler": (
            "Sampler SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler "
            "BatchSampler"
        ),
        "needle.data.text": "Dictionary Corpus batchify get_batch TextDataset read_text",
    },
    "needle.distributed": {
        "needle.mpi.world": "RankError",
        "needle.distributed.collectives": (
            "all_gather all_reduce all_to_all broadcast flush gather recv reduce_scatter scatter "
            "send"
        ),
        "needle.distributed.data_parallel": (
            "DistributedDataParallel average_gradients broadcast_state"
        ),
        "needle.distributed.pipeline": "Pipeline schedule",
        "needle.distributed.ranks": "Group barrier init rank seed_rank world world_size",
        "needle.distributed.sharded": "ShardedOptimizer",
        "needle.distributed.sync_norm": "SyncBatchNorm",
        "needle.distributed.tensor_parallel": (
            "ColumnParallelLinear RowParallelLinear vocabulary_parallel_cross_entropy"
        ),
    },
    "needle.init": {
        "needle.init.basic": (
            "full ones zeros empty full_like ones_like zeros_like empty_like arange linspace eye "
            "one_hot rand randn randb randint randperm rand_like randn_like tensor asarray "
            "as_tensor from_numpy from_dlpack constant"
        ),
        "needle.init.initializers": "xavier_uniform xavier_normal kaiming_uniform kaiming_normal",
        "needle.init.sampling": "multinomial bernoulli",
    },
    "needle.io": {
        "needle.io.checkpoint": "Checkpoint",
        "needle.io.saving": "save load",
    },
    "needle.nn": {
        "needle.nn.functional": "functional=",
        "needle.nn.init": "init=",
        "needle.nn.utils": "utils=",
        "needle.nn.activation": (
            "ReLU ReLU6 Sigmoid LogSigmoid Tanh GELU SiLU Mish Softplus Softsign ELU SELU "
            "LeakyReLU PReLU Hardtanh Hardsigmoid Hardswish GLU Softmax LogSoftmax"
        ),
        "needle.nn.container": (
            "Sequential ModuleList ModuleDict ParameterList ParameterDict Residual"
        ),
        "needle.nn.conv": (
            "Conv Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"
        ),
        "needle.nn.dropout": "Dropout Dropout2d Dropout1d",
        "needle.nn.embedding": "Embedding",
        "needle.nn.linear": "Identity Linear Flatten Unflatten",
        "needle.nn.loss": (
            "SoftmaxLoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss MSELoss L1Loss "
            "SmoothL1Loss HuberLoss KLDivLoss CosineEmbeddingLoss TripletMarginLoss "
            "CosineSimilarity"
        ),
        "needle.nn.module": "Parameter Module",
        "needle.nn.norm": (
            "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d "
            "GroupNorm LayerNorm LayerNorm1d RMSNorm"
        ),
        "needle.nn.pool": (
            "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d "
            "AdaptiveAvgPool2d AdaptiveMaxPool1d AdaptiveMaxPool2d GlobalAvgPool GlobalMaxPool "
            "Upsample PixelShuffle ZeroPad2d ReflectionPad2d"
        ),
        "needle.nn.quantized": "QuantizedLinear quantize",
        "needle.nn.sequence.attention": (
            "MultiHeadAttention AttentionLayer TransformerLayer Transformer"
        ),
        "needle.nn.sequence.recurrent": "RNNCell LSTMCell GRUCell RNN LSTM GRU",
        "needle.nn.sequence.transformer": (
            "MultiheadAttention TransformerEncoderLayer TransformerDecoderLayer "
            "TransformerEncoder TransformerDecoder RotaryEmbedding"
        ),
        "needle.nn.state": "LoadReport",
        "needle.nn.summary": "Summary",
    },
    "needle.nn.functional": {
        "needle.nn.functional.activation": (
            "elu gelu glu gumbel_softmax hardsigmoid hardswish hardtanh leaky_relu log_softmax "
            "logsigmoid mish prelu relu relu6 selu sigmoid silu softmax softplus softsign tanh"
        ),
        "needle.nn.functional.attention": "scaled_dot_product_attention apply_rotary",
        "needle.nn.functional.conv": (
            "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d "
            "max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
            "adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d unfold fold interpolate "
            "pixel_shuffle pad"
        ),
        "needle.nn.functional.linear": "linear embedding one_hot dropout",
        "needle.nn.functional.loss": (
            "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
            "mse_loss l1_loss smooth_l1_loss huber_loss cosine_similarity cosine_embedding_loss "
            "triplet_margin_loss"
        ),
        "needle.nn.functional.norm": (
            "layer_norm rms_norm batch_norm group_norm instance_norm normalize"
        ),
    },
    "needle.ops": {
        "needle.autograd.op": "Op",
        "needle.autograd.tensor": "Tensor TensorOp TensorTuple TensorTupleOp Value",
        "needle.compat.torch_math": (
            "reciprocal clamp_min clamp_max lerp addcmul addcdiv addmm baddbmm broadcast_tensors "
            "bincount cdist"
        ),
        "needle.compat.torch_names": (
            "cat concat div mul neg pow sub ge gt le lt clamp eq ne bmm mm mv log_softmax "
            "repeat_interleave swapdims expand movedim moveaxis t unflatten narrow select unbind "
            "index_select masked_select diag trace hstack vstack isclose"
        ),
        "needle.ops.arithmetic": (
            "EWiseAdd AddScalar add_scalar add Negate negate subtract EWiseMul MulScalar "
            "mul_scalar multiply EWiseDiv DivScalar ScalarDiv divide_scalar divide EWisePow "
            "PowerScalar ScalarPower power_scalar power Atan2 atan2 Remainder remainder "
            "FloorDivide floor_divide"
        ),
        "needle.ops.compare": (
            "Predicate PredicateScalar equal not_equal less less_equal greater greater_equal "
            "logical_and logical_or logical_xor logical_not isnan isinf isfinite bitwise_and "
            "bitwise_or bitwise_xor left_shift right_shift invert Extremum Maximum maximum "
            "Minimum minimum Where where Clip clip"
        ),
        "needle.ops.contraction": "einsum",
        "needle.ops.cumulative": "CumSum cumsum CumProd cumprod",
        "needle.ops.elementwise": "Elementwise WithScalar Cast astype",
        "needle.ops.index.along_axis": (
            "index_add Gather AlongIntoZeros gather take_along_axis ScatterAdd scatter_add "
            "scatter"
        ),
        "needle.ops.index.indexing": (
            "GetItem IntoZeros take SetItem WrittenLast AddAt masked_fill NonZero nonzero"
        ),
        "needle.ops.index.sorting": (
            "ArgSort argsort sort topk median SearchSorted searchsorted unique"
        ),
        "needle.ops.matmul": "MatMul matmul dot outer",
        "needle.ops.network.conv": (
            "Conv ConvByData ConvByWeight conv conv_channels_last conv_transpose_channels_last "
            "Unfold Fold unfold fold"
        ),
        "needle.ops.network.pool": (
            "MaxPool PickLargest SpreadLargest LargestPosition max_pool adaptive_max_pool "
            "global_max_pool avg_pool adaptive_avg_pool global_avg_pool"
        ),
        "needle.ops.network.resize": "interpolate",
        "needle.ops.network.softmax": (
            "LogSumExp logsumexp Normalizer LogSoftmax Softmax logsoftmax softmax"
        ),
        "needle.ops.reduce": (
            "Reduction Summation summation sum Mean mean Var Std var std Extreme Max max AMax "
            "amax Min min AMin amin ArgReduce argmax argmin AnyOf AllOf any all Prod prod norm"
        ),
        "needle.ops.shape.concat": (
            "Stack stack Split split Concatenate concatenate SplitAt array_split chunk tile "
            "repeat roll"
        ),
        "needle.ops.shape.movement": (
            "Reshape reshape flatten squeeze expand_dims unsqueeze BroadcastTo broadcast_to "
            "meshgrid Transpose transpose swapaxes Permute permute Flip flip Diagonal OnDiagonal "
            "diagonal Triangle tril triu Clone clone ToDevice to"
        ),
        "needle.ops.shape.pad": "Pad Crop crop pad Dilate UnDilate dilate undilate",
        "needle.ops.tuples": (
            "MakeTensorTuple make_tuple TupleGetItem tuple_get_item FusedAddScalars "
            "fused_add_scalars"
        ),
        "needle.ops.unary": (
            "Abs abs Sign sign Exp exp Expm1 expm1 Log log Log1p log1p Log2 log2 Log10 log10 Sqrt "
            "sqrt Rsqrt rsqrt Square square Sin sin Cos cos Tan tan Asin asin Acos acos Atan atan "
            "Tanh tanh Sinh sinh Cosh cosh Sigmoid sigmoid ReLU relu Erf erf Floor floor Ceil "
            "ceil Round round"
        ),
    },
    "needle.optim": {
        "needle.transforms.clipping": "clip_grad_norm_ clip_grad_value_ total_norm",
        "needle.optim.lr_scheduler": "lr_scheduler=",
        "needle.optim.schedule": (
            "schedule= LRScheduler LambdaLR StepLR MultiStepLR ExponentialLR PolynomialLR "
            "LinearLR LinearWarmup CosineAnnealingLR CosineAnnealingWarmRestarts OneCycleLR "
            "SequentialLR ChainedScheduler ReduceLROnPlateau"
        ),
        "needle.optim.adadelta": "Adadelta",
        "needle.optim.adafactor": "Adafactor",
        "needle.optim.adagrad": "Adagrad",
        "needle.optim.adam": "Adam AdamW",
        "needle.optim.ema": "ExponentialMovingAverage",
        "needle.optim.group": "ParamGroup",
        "needle.optim.lion": "Lion",
        "needle.optim.muon": "Muon",
        "needle.optim.optimizer": "Optimizer",
        "needle.optim.rmsprop": "RMSprop",
        "needle.optim.sgd": "SGD",
    },
    "needle.torch.distributions": {
        "needle.torch.distributions.constraints": "constraints=",
        "needle.torch.distributions.kl": "kl= kl_divergence register_kl",
        "needle.torch.distributions.transforms": (
            "transforms= AffineTransform ComposeTransform ExpTransform PowerTransform "
            "SigmoidTransform SoftplusTransform TanhTransform Transform identity_transform"
        ),
        "needle.torch.distributions.composed": (
            "Independent MixtureSameFamily TransformedDistribution"
        ),
        "needle.torch.distributions.continuous": (
            "Cauchy Exponential Gumbel HalfNormal Laplace LogNormal Normal Uniform"
        ),
        "needle.torch.distributions.discrete": (
            "Bernoulli Binomial Categorical Geometric OneHotCategorical "
            "OneHotCategoricalStraightThrough Poisson"
        ),
        "needle.torch.distributions.distribution": "Distribution ExponentialFamily",
        "needle.torch.distributions.gamma": "Beta Chi2 Dirichlet Gamma",
        "needle.torch.distributions.multivariate_normal": "MultivariateNormal",
        "needle.torch.distributions.student": "StudentT",
    },
    "needle.torch.nn": {
        "needle.torch.nn.attention": "attention=",
        "needle.torch.nn.functional": "functional=",
        "needle.torch.nn.init": "init=",
        "needle.torch.nn.modules": "modules= *",
        "needle.torch.nn.parallel": "parallel= DataParallel",
        "needle.torch.nn.parameter": (
            "parameter= Buffer Parameter UninitializedBuffer UninitializedParameter"
        ),
        "needle.torch.nn.utils": "utils=",
        "needle.torch.nn.base.module": "Module",
    },
    "needle.torch.nn.functional": {
        "needle.torch.nn.functional.activation": (
            "celu celu_ elu elu_ gelu glu gumbel_softmax hardshrink hardsigmoid hardswish "
            "hardtanh hardtanh_ leaky_relu leaky_relu_ log_softmax logsigmoid mish prelu relu "
            "relu6 relu_ rrelu rrelu_ selu selu_ sigmoid silu softmax softmin softplus softshrink "
            "softsign tanh tanhshrink threshold threshold_"
        ),
        "needle.torch.nn.functional.attention": (
            "multi_head_attention_forward scaled_dot_product_attention"
        ),
        "needle.torch.nn.functional.conv": (
            "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
            "fold unfold"
        ),
        "needle.torch.nn.functional.dropping": (
            "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout"
        ),
        "needle.torch.nn.functional.grid": "affine_grid grid_sample",
        "needle.torch.nn.functional.linear": (
            "bilinear cosine_similarity embedding embedding_bag linear normalize one_hot "
            "pairwise_distance pdist"
        ),
        "needle.torch.nn.functional.loss": (
            "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy ctc_loss "
            "gaussian_nll_loss huber_loss kl_div l1_loss mse_loss nll_loss poisson_nll_loss "
            "smooth_l1_loss"
        ),
        "needle.torch.nn.functional.loss_margin": (
            "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss "
            "multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss "
            "triplet_margin_loss triplet_margin_with_distance_loss"
        ),
        "needle.torch.nn.functional.norm": (
            "batch_norm group_norm instance_norm layer_norm local_response_norm rms_norm"
        ),
        "needle.torch.nn.functional.pool": (
            "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
            "adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d "
            "lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d "
            "max_unpool3d"
        ),
        "needle.torch.nn.functional.shape": (
            "channel_shuffle interpolate native_channel_shuffle pad pixel_shuffle pixel_unshuffle "
            "upsample upsample_bilinear upsample_nearest"
        ),
    },
    "needle.torch.nn.modules": {
        "needle.torch.nn.base.module": "Module",
        "needle.torch.nn.modules.activation": (
            "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
            "LogSoftmax Mish PReLU RReLU ReLU ReLU6 SELU Sigmoid SiLU Softmax Softmax2d Softmin "
            "Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
        ),
        "needle.torch.nn.modules.batchnorm": (
            "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d "
            "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d "
            "LazyInstanceNorm2d LazyInstanceNorm3d SyncBatchNorm"
        ),
        "needle.torch.nn.modules.container": (
            "Container ModuleDict ModuleList ParameterDict ParameterList Sequential"
        ),
        "needle.torch.nn.modules.conv": (
            "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d "
            "LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
        ),
        "needle.torch.nn.modules.dropout": (
            "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout"
        ),
        "needle.torch.nn.modules.linear": (
            "Bilinear Identity LazyLinear Linear NonDynamicallyQuantizableLinear"
        ),
        "needle.torch.nn.modules.loss": (
            "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss "
            "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss "
            "MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss "
            "NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
            "TripletMarginWithDistanceLoss"
        ),
        "needle.torch.nn.modules.normalization": (
            "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm"
        ),
        "needle.torch.nn.modules.padding": (
            "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
            "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
            "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"
        ),
        "needle.torch.nn.modules.pooling": (
            "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
            "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d "
            "LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"
        ),
        "needle.torch.nn.modules.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
        "needle.torch.nn.modules.shapes": (
            "ChannelShuffle CosineSimilarity Flatten Fold PairwiseDistance PixelShuffle "
            "PixelUnshuffle Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d"
        ),
        "needle.torch.nn.modules.sparse": "Embedding EmbeddingBag",
        "needle.torch.nn.modules.transformer": (
            "MultiheadAttention Transformer TransformerDecoder TransformerDecoderLayer "
            "TransformerEncoder TransformerEncoderLayer"
        ),
    },
    "needle.torch.nn.utils": {
        "needle.torch.nn.utils.clip_grad": (
            "clip_grad= clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ "
            "get_total_norm"
        ),
        "needle.torch.nn.utils.parametrizations": "parametrizations=",
        "needle.torch.nn.utils.parametrize": "parametrize=",
        "needle.torch.nn.utils.rnn": "rnn=",
        "needle.torch.nn.utils.stateless": "stateless= skip_init",
        "needle.torch.nn.utils.former": (
            "remove_spectral_norm remove_weight_norm spectral_norm weight_norm"
        ),
        "needle.torch.nn.utils.fusion": (
            "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights"
        ),
        "needle.torch.nn.utils.vectors": "parameters_to_vector vector_to_parameters",
    },
    "needle.torch.optim": {
        "needle.torch.optim.lr_scheduler": "lr_scheduler=",
        "needle.torch.optim.swa_utils": "swa_utils=",
        "needle.torch.optim.adam": "Adam AdamW Adamax NAdam RAdam",
        "needle.torch.optim.averages": "Adadelta Adagrad RMSprop",
        "needle.torch.optim.factored": "Adafactor Muon SparseAdam",
        "needle.torch.optim.lbfgs": "LBFGS",
        "needle.torch.optim.optimizer": "Optimizer",
        "needle.torch.optim.sgd": "ASGD SGD Rprop",
    },
    "needle.torch.sparse": {
        "needle.torch.sparse.coo": "DoubleTensor FloatTensor addmm mm softmax sum",
    },
    "needle.torch.utils": {
        "needle.torch.utils.checkpoint": "checkpoint=",
        "needle.torch.utils.data": "data=",
        "needle.torch.utils.tensorboard": "tensorboard=",
    },
    "needle.torch.utils.data": {
        "needle.torch.utils.data.dataloader": "dataloader= DataLoader",
        "needle.torch.utils.data.dataset": (
            "dataset= ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset "
            "TensorDataset random_split"
        ),
        "needle.torch.utils.data.distributed": "distributed= DistributedSampler",
        "needle.torch.utils.data.sampler": (
            "sampler= BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler "
            "WeightedRandomSampler"
        ),
        "needle.torch.utils.data.collate": "default_collate default_convert",
        "needle.torch.utils.data.worker": "get_worker_info",
    },
    "needle.transforms": {
        "needle.transforms.functions": "vjp value_and_grad grad jvp jacobian hessian",
    },
}

TENSOR_METHODS: dict[str, str] = {
    "ops.cumulative": "cumsum cumprod",
    "compat.inplace_methods": (
        "copy_ fill_ zero_ fill_diagonal_ uniform_ normal_ bernoulli_ exponential_ add_ sub_ "
        "mul_ div_ pow_ abs_ exp_ log_ sqrt_ rsqrt_ square_ sigmoid_ tanh_ relu_ floor_ ceil_ "
        "round_ sin_ cos_ tril_ triu_ lerp_ addcmul_ addcdiv_ clamp_min_ clamp_max_ "
        "reciprocal_ masked_fill_ scatter_ scatter_add_ index_add_ neg_ clamp_ clip_"
    ),
    "ops.index.sorting": "sort argsort topk median unique",
    "ops.network.softmax": "logsumexp logsoftmax softmax",
    "compat.torch_math": "reciprocal clamp_min clamp_max lerp addcmul addcdiv addmm bincount",
    "compat.torch_names": (
        "expand movedim t unflatten narrow select unbind index_select masked_select diag "
        "trace isclose allclose view_as expand_as type_as numel dim is_floating_point "
        "is_contiguous contiguous cpu cuda retain_grad new_full new_zeros new_ones new_tensor "
        "view reshape_as ravel moveaxis swapdims nelement ndimension sub mul div pow neg add "
        "gt ge lt le clamp mm bmm mv log_softmax repeat_interleave outer logical_and "
        "logical_or new_empty equal type half bfloat16 double long short char byte float int "
        "bool"
    ),
}
