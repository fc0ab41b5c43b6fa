"""Which bertie this is; read by the package's build too."""

__version__ = "0.1.0"
