"""k3prof: which device works when, and why a big model on several GPUs is as slow as it is."""

__version__ = "0.1.0"
