"""Networks: modules, and the layers made of them."""

from .activation import ReLU as ReLU, Sigmoid as Sigmoid, Tanh as Tanh
from .attention import (
    AttentionLayer as AttentionLayer,
    MultiHeadAttention as MultiHeadAttention,
    Transformer as Transformer,
    TransformerLayer as TransformerLayer,
)
from .container import (
    ModuleDict as ModuleDict,
    ModuleList as ModuleList,
    Residual as Residual,
    Sequential as Sequential,
)
from .conv import Conv as Conv
from .dropout import Dropout as Dropout, Dropout1d as Dropout1d, Dropout2d as Dropout2d
from .embedding import Embedding as Embedding
from .linear import (
    Flatten as Flatten,
    Identity as Identity,
    Linear as Linear,
    Unflatten as Unflatten,
)
from .loss import SoftmaxLoss as SoftmaxLoss
from .module import LoadReport as LoadReport, Module as Module, Parameter as Parameter
from .norm import BatchNorm1d as BatchNorm1d, BatchNorm2d as BatchNorm2d, LayerNorm1d as LayerNorm1d
from .recurrent import LSTM as LSTM, RNN as RNN, LSTMCell as LSTMCell, RNNCell as RNNCell
