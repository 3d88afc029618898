"""`torch.distributed` for a world of one process; larger worlds are `needle.distributed`'s."""

from __future__ import annotations

import os
from typing import Any

from ...autograd import Tensor

__all__ = [
    "ReduceOp", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "barrier", "broadcast", "broadcast_object_list", "destroy_process_group", "get_backend",
    "get_rank", "get_world_size", "init_process_group", "is_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "reduce",
]  # fmt: skip

_state = {"backend": ""}  # of the only group; "" before `init_process_group`


class ReduceOp:
    """How values of ranks are joined."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"


def is_available() -> bool:
    """Is this module here? Yes."""
    return True


def is_gloo_available() -> bool:
    """May `gloo` be asked for? Yes: one process needs no library."""
    return True


def is_nccl_available() -> bool:
    """Is NCCL here? No."""
    return False


is_mpi_available = is_torchelastic_launched = is_nccl_available


def is_initialized() -> bool:
    """Has `init_process_group` been called?"""
    return bool(_state["backend"])


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: object = None,
    world_size: int = -1, rank: int = -1, store: object = None, group_name: str = "",
    pg_options: object = None, device_id: object = None,
) -> None:  # fmt: skip
    """Start the world of one rank."""
    ranks = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1"))
    if ranks != 1:
        raise NotImplementedError(
            f"[torch.distributed.init_process_group] expected a world of one process, got {ranks}; "
            "use needle.distributed."
        )
    if backend is not None and "nccl" in backend and "gloo" not in backend:
        raise RuntimeError("[init_process_group] expected 'gloo', got 'nccl': there are no GPUs.")
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    _state["backend"] = backend or "gloo"


def destroy_process_group(group: object = None) -> None:
    """Forget the world."""
    _check()
    _state["backend"] = ""


def _check() -> None:
    if not is_initialized():
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )


def get_backend(group: object = None) -> str:
    """The name that the world was started with."""
    _check()
    return _state["backend"]


def get_rank(group: object = None) -> int:
    """This process's number."""
    _check()
    return 0


def get_world_size(group: object = None) -> int:
    """How many processes there are."""
    _check()
    return 1


def barrier(group: object = None, async_op: bool = False, device_ids: object = None) -> None:
    """Wait for all ranks."""
    _check()


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Of one rank, sum, mean, product, least and largest are its own value."""
    _check()
    return Work() if async_op else None


def broadcast(
    tensor: Tensor, src: int = 0, group: object = None, async_op: bool = False
) -> Work | None:
    """Rank 0's value: this one."""
    _check()
    if src:
        raise ValueError(f"[broadcast] expected rank 0, got {src}: there is one rank.")
    return Work() if async_op else None


def reduce(
    tensor: Tensor, dst: int = 0, op: str = ReduceOp.SUM, group: object = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """All ranks' values joined on one."""
    return broadcast(tensor, dst, group, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: object = None, async_op: bool = False
) -> Work | None:
    """All ranks' values."""
    _check()
    tensor_list[0].copy_(tensor)
    return Work() if async_op else None


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: object = None, async_op: bool = False
) -> Work | None:
    """All ranks' values, one after the other."""
    return all_gather([output_tensor], input_tensor, group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: object = None) -> None:
    """All ranks' objects."""
    _check()
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], src: int = 0, group: object = None) -> None:
    """Rank 0's objects: these."""
    _check()


class Work:
    """A call that has ended."""

    def wait(self) -> bool:
        """It has ended."""
        return True

    def is_completed(self) -> bool:
        """It has ended."""
        return True
