"""The course's models: a small ResNet for 32 x 32 images, and language models."""

from __future__ import annotations

from typing import Any

import needle as ndl
import needle.nn as nn


def ConvBN(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int,
    device: Any = None,
    dtype: Any = "float32",
) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU."""
    options = {"device": device, "dtype": dtype}
    return nn.Sequential(
        nn.Conv(in_channels, out_channels, kernel_size, stride, **options),
        nn.BatchNorm2d(out_channels, **options),
        nn.ReLU(),
    )


class ResNet9(nn.Module):
    """(N, 3, 32, 32) -> (N, 10): two strided blocks and a residual pair, twice."""

    def __init__(self, device: Any = None, dtype: Any = "float32"):
        options = {"device": device, "dtype": dtype}

        def pair(channels: int) -> nn.Residual:
            return nn.Residual(
                nn.Sequential(
                    ConvBN(channels, channels, 3, 1, **options),
                    ConvBN(channels, channels, 3, 1, **options),
                )
            )

        self.model = nn.Sequential(
            ConvBN(3, 16, 7, 4, **options),
            ConvBN(16, 32, 3, 2, **options),
            pair(32),
            ConvBN(32, 64, 3, 2, **options),
            ConvBN(64, 128, 3, 2, **options),
            pair(128),
            nn.Flatten(),
            nn.Linear(128, 128, **options),
            nn.ReLU(),
            nn.Linear(128, 10, **options),
        )

    def forward(self, x: ndl.Tensor) -> ndl.Tensor:
        return self.model(x)


class LanguageModel(nn.Module):
    """Embedding, a sequence model, a linear head: ids (T, B) -> logits (T B, V), state."""

    def __init__(
        self,
        embedding_size: int,
        output_size: int,
        hidden_size: int,
        num_layers: int = 1,
        seq_model: str = "rnn",
        seq_len: int = 40,
        device: Any = None,
        dtype: Any = "float32",
    ):
        options = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(output_size, embedding_size, **options)
        if seq_model == "transformer":
            self.seq_model = nn.Transformer(
                embedding_size, hidden_size, num_layers, sequence_len=seq_len, **options
            )
            features = embedding_size
        elif seq_model in ("rnn", "lstm"):
            kind = nn.RNN if seq_model == "rnn" else nn.LSTM
            self.seq_model = kind(embedding_size, hidden_size, num_layers, **options)
            features = hidden_size
        else:
            raise ValueError(
                f"[LanguageModel] seq_model must be 'rnn', 'lstm' or 'transformer', "
                f"got {seq_model!r}."
            )
        self.linear = nn.Linear(features, output_size, **options)

    def forward(self, x: ndl.Tensor, h: Any = None) -> tuple[ndl.Tensor, Any]:
        time, batch = x.shape
        out, h = self.seq_model(self.embedding(x), h)  # (T, B, F)
        return self.linear(out.reshape((time * batch, out.shape[-1]))), h
