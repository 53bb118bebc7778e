"""Finds the onnxruntime revision that broke (or fixed) onnxruntime-web.

This module and `bootstrap` import nothing outside the standard library: they run before anything is installed.
"""

__version__ = "0.1.0"
