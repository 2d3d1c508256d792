"""A stand-in for the package with TensorRT's libraries. A test puts cudart.c beside it, compiled."""
