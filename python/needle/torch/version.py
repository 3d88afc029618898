"""`torch.version`."""

from .core.settings import __version__ as __version__

cuda = hip = xpu = git_version = None
debug = False
