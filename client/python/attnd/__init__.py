"""Client of attnd, the attention server: NumPy (or torch) arrays in, arrays out."""

from attnd._client import AttendResult, Client, Diagnostics, MergeResult, ServerInfo, Timings
from attnd._errors import AttndError

__all__ = ["AttendResult", "AttndError", "Client", "Diagnostics", "MergeResult", "ServerInfo", "Timings"]
