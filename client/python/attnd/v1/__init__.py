"""The messages and stubs of attnd.v1, generated from proto/attnd/v1 when the package is installed."""
