"""Exceptions of the library.

Every class is a :class:`Error` (and so a ``RuntimeError``) and also the builtin that names the same fault, so that
``except ValueError`` keeps working.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "ArgumentError",
    "CudaError",
    "DTypeError",
    "DeadlineError",
    "DeviceError",
    "Error",
    "ExchangeError",
    "FileError",
    "FormatError",
    "NotFoundError",
    "NvrtcError",
    "NvrtcErrorCode",
    "OutOfMemoryError",
    "OutOfRangeError",
    "ShapeError",
    "UnsupportedError",
]


class Error(RuntimeError):
    """Base of every error the library raises."""


class ArgumentError(Error, ValueError):
    """A bad argument value: ``op: argument must needed, got given``."""

    op: str = ""
    argument: str = ""
    needed: str = ""
    given: str = ""


class ShapeError(ArgumentError):
    """Shapes that do not fit each other or the operation."""


class DTypeError(ArgumentError, TypeError):
    """A dtype the operation does not take."""


class OutOfRangeError(Error, IndexError):
    """An index or axis outside its range."""

    index: int = 0
    limit: int = 0


class DeviceError(Error):
    """A device that is missing, refused, or not the one the other arguments are on."""


class OutOfMemoryError(Error, MemoryError):
    """Memory that could not be had. The message says what was asked, used and tried."""

    asked_bytes: int = 0
    in_use_bytes: int = 0
    limit_bytes: int = 0


class CudaError(Error):
    """A driver call that failed."""

    call: str = ""
    code: int = 0
    name: str = ""


class FormatError(Error, ValueError):
    """A file whose contents do not follow its format."""


class FileError(Error, OSError):
    """A file that could not be opened, read or written. Has errno, strerror and filename as every OSError."""

    def __new__(cls, *args: object) -> FileError:
        return OSError.__new__(cls, *args)  # RuntimeError's would keep none of them

    def __str__(self) -> str:
        return str(self.strerror) if self.strerror is not None else super().__str__()


class NotFoundError(Error, KeyError):
    """A name that is not there."""

    # KeyError would show the message in quotes.
    __str__ = Error.__str__


class ExchangeError(Error, BufferError):
    """Something that another library's exchange protocol cannot represent."""


class DeadlineError(Error, TimeoutError):
    """Work that did not finish in its time."""


class UnsupportedError(Error, NotImplementedError):
    """Valid input that this device or build cannot compute."""


class NvrtcErrorCode(IntEnum):
    """Result codes of the run-time compiler; 1000 and up are faults around it."""

    Success = 0
    OutOfMemory = 1
    ProgramCreationFailure = 2
    InvalidInput = 3
    InvalidProgram = 4
    InvalidOption = 5
    Compilation = 6
    BuiltinOperationFailure = 7
    NoNameExpressionsAfterCompilation = 8
    NoLoweredNamesBeforeCompilation = 9
    NameExpressionNotValid = 10
    InternalError = 11
    NotLoaded = 1000
    PtxLoadFailed = 1001
    FunctionNotFound = 1002
    LaunchFailed = 1003


class NvrtcError(Error):
    """A failed run-time compilation, with the compiler's code and full log."""

    def __init__(
        self,
        message: str,
        code: NvrtcErrorCode | int = NvrtcErrorCode.InternalError,
        compilation_log: str = "",
    ) -> None:
        super().__init__(message)
        try:
            self.code: NvrtcErrorCode = NvrtcErrorCode(code)
        except ValueError:
            self.code = NvrtcErrorCode.InternalError
        self.compilation_log: str = compilation_log

    def __str__(self) -> str:
        return f"[{self.code.name}] {self.args[0]}"
