"""`torch.hub`: models of local folders; nothing is fetched."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_chosen: dict[str, str] = {}


def get_dir() -> str:
    """Where files are looked for."""
    home = os.environ.get("TORCH_HOME", os.path.join(os.path.expanduser("~"), ".cache", "torch"))
    return _chosen.get("dir", os.path.join(home, "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose where files are looked for."""
    _chosen["dir"] = os.path.expanduser(d)


def _entries(folder: str, source: str) -> ModuleType:
    if source != "local":
        raise NotImplementedError(
            f"[torch.hub] expected source='local' and a folder, got {source!r}: nothing is fetched."
        )
    path = Path(folder) / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"[torch.hub] expected {path}, which is not there.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """What the function of this name in the folder's hubconf.py returns."""
    found = getattr(_entries(repo_or_dir, source), model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found(*args, **kwargs)


def help(github: str, model: str, source: str = "github") -> str | None:
    """The docstring of a function of hubconf.py."""
    text: str | None = getattr(_entries(github, source), model).__doc__
    return text


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, file_name: str | None = None
) -> Any:
    """The weights of a file that is there already; an error says where it belongs."""
    from ..files.saving import load as load_file

    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    path = folder / (file_name or url.split("?")[0].rpartition("/")[2])
    if not path.exists():
        raise FileNotFoundError(
            f"[load_state_dict_from_url] nothing is fetched; expected {path}. Put the file there."
        )
    return load_file(path, map_location=map_location)


def _list(github: str, source: str = "github") -> list[str]:
    """The functions of hubconf.py."""
    return [k for k, v in vars(_entries(github, source)).items() if callable(v) and k[0] != "_"]


globals()["list"] = _list
