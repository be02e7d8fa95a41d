"""Errors a user can meet; each message states where, what is wrong, what was found and what to do."""


class DeepLFMError(Exception):
    """Base class of every error raised on purpose by deeplfm."""


class InputError(DeepLFMError, ValueError):
    """The data handed in cannot be used as they are."""


class ConfigError(DeepLFMError, ValueError):
    """A setting has no meaning, or contradicts another one."""


class NoPanelError(ConfigError, AttributeError):
    """An attribute of a forecaster of many series was asked of one that has a single series."""


class UnsuitableError(DeepLFMError, ValueError):
    """A candidate is not made for the rows; the message states what it needs, to follow its name."""


class TrainingDivergedError(DeepLFMError, ArithmeticError):
    """The objective or a gradient stopped being a finite number."""


class ModelFileError(DeepLFMError, OSError):
    """A saved model is missing, damaged, foreign, or newer than this version of deeplfm."""


# Anything that plain data of a wrong kind, or a damaged file, may cause where they are used.
MISUSES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
