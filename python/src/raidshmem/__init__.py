"""Fault tolerance for shmem4py: checkpoints of NumPy arrays in symmetric memory.

`run` is the loop of a program that survives losses; the other functions are the calls of
`shmem_ft.h` under their names. Everything else of OpenSHMEM is shmem4py's.

An array of this module is a view of symmetric memory without an owner: the garbage collector never
frees it, because after a loss the allocator rolls back to a checkpoint that may not contain it.
"""

from __future__ import annotations

import ctypes
import json
import os
import types
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from shmem4py import shmem  # begins with shmem_init
from shmem4py.api import ffi

__version__ = "0.1.0"
__all__ = [
    "Agreed", "CheckpointSet", "Lost", "Refused", "acknowledge", "agree", "algo_init", "array",
    "checkpoint_all", "checkpoint_number", "empty", "event", "exclude", "failed", "faulted",
    "flush", "free", "get", "get_checkpoint", "include", "last_error", "need_checkpoint",
    "on_fault", "protect", "protected", "put2", "query_fault", "restart_pes", "run", "shadow",
    "should_stop", "shrink", "survives", "zeros",
]  # fmt: skip

_SONAME = "libraidshmem.so.0"
_SUCCESS = 0
_LOSSES = {1: "process", 2: "node"}
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


class Lost(Exception):
    """A PE was lost: `restart_pes` must follow. `pes` maps each to "process" or "node"."""

    def __init__(self, pes: Mapping[int, str]) -> None:
        super().__init__(", ".join(f"PE {pe} ({how})" for pe, how in pes.items()))
        self.pes = dict(pes)


class Refused(Exception):
    """No PE could make the checkpoint; the previous one remains valid."""


def _load() -> ctypes.CDLL:
    """Returns the library that shmem4py has loaded; a second copy would belong to no job."""
    try:
        library = ctypes.CDLL(_SONAME, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        raise ImportError(
            f"shmem4py was built with another OpenSHMEM library than {_SONAME}: "
            "OSHCC=oshcc CFLAGS=-DPySHMEM_VENDOR_Sandia=1 "
            "pip install --force-reinstall --no-binary shmem4py shmem4py"
        ) from None
    integers = ctypes.POINTER(ctypes.POINTER(ctypes.c_int))
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for name, result, arguments in [
        ("shmem_checkpoint_all", number, []),
        ("shmem_query_fault", number, [integers, integers, ctypes.POINTER(size)]),
        ("shmem_restart_pes", number, [ctypes.POINTER(number), size]),
        ("shmem_ft_algo_init", number, []),
        ("shmem_calloc", address, [size, size]),
        ("shmem_free", None, [address]),
        ("shmemx_ft_protect", number, [ctypes.c_char_p, address, size]),
        ("shmemx_ft_include", number, [address, size]),
        ("shmemx_ft_exclude", number, [address, size]),
        ("shmemx_ft_readonly", number, [address, size]),
        ("shmemx_ft_writable", number, [address, size]),
        ("shmemx_ft_event", None, [address, size]),
        ("shmemx_ft_last_error", ctypes.c_char_p, []),
        ("shmemx_ft_checkpoint_number", ctypes.c_uint64, []),
        ("shmemx_ft_protected", number, [ctypes.c_uint64]),
        ("shmemx_ft_flush", number, []),
        ("shmemx_ft_need_checkpoint", number, []),
        ("shmemx_ft_should_stop", number, []),
        ("shmemx_ft_survives", number, [number, number]),
        ("shmemx_ft_get", number, [address, address, size, number]),
        ("shmemx_ft_get_checkpoint", number,
         [address, address, size, number, ctypes.POINTER(ctypes.c_uint64)]),
        ("shmemx_ft_put2", number, [address, address, size, number, number]),
        ("shmemx_ft_shadow", number, [address, number]),
        ("shmemx_ft_agree", number, [address, ctypes.POINTER(number)]),
        ("shmemx_ft_shrink", number, [address, ctypes.POINTER(address)]),
        ("shmemx_ft_failed", number, [address, integers, ctypes.POINTER(size)]),
        ("shmemx_ft_on_fault", None, [_HANDLER, address]),
        ("shmemx_ft_faulted", number, []),
        ("shmemx_ft_set_open", number, [ctypes.c_char_p]),
        ("shmemx_ft_set_list", number, [number, size, ctypes.POINTER(ctypes.c_char_p),
                                        ctypes.POINTER(number), ctypes.POINTER(size)]),
        ("shmemx_ft_set_read", number, [number, ctypes.c_char_p, number, size, address, size]),
        ("shmemx_ft_set_close", None, [number]),
        ("shmemx_ft_set_error", ctypes.c_char_p, []),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _load()
_libc = ctypes.CDLL(None)
_libc.free.argtypes = [ctypes.c_void_p]


# ---- the calls of shmem_ft.h ---------------------------------------------------------------------


def checkpoint_all() -> None:
    """Saves all symmetric data and protected arrays. Collective.

    Raises `Lost` if a PE was lost since the last call, `Refused` if no PE could save.
    """
    if _lib.shmem_checkpoint_all() == _SUCCESS:
        return
    reason = last_error()
    if reason is None:
        raise Lost(query_fault())
    raise Refused(reason)


def query_fault() -> dict[int, str]:
    """Returns the PEs lost since this PE last saw a complete job, mapped to "process" or "node"."""
    pes, status = (ctypes.POINTER(ctypes.c_int)() for _ in range(2))
    count = ctypes.c_size_t()
    _lib.shmem_query_fault(ctypes.byref(pes), ctypes.byref(status), ctypes.byref(count))
    lost = {pes[i]: _LOSSES[status[i]] for i in range(count.value)}
    for memory in (pes, status):
        _libc.free(ctypes.cast(memory, ctypes.c_void_p))
    return lost


def restart_pes() -> None:
    """Rolls every PE, including substitutes, back to the last checkpoint. Collective."""
    lost = list(query_fault())
    _lib.shmem_restart_pes((ctypes.c_int * len(lost))(*lost), len(lost))
    shmem.barrier_all()


def algo_init() -> bool:
    """Returns True in an original process, False in a substitute."""
    return bool(_lib.shmem_ft_algo_init())


def checkpoint_number() -> int:
    """Returns the number of the last agreed checkpoint, 0 before the first."""
    return int(_lib.shmemx_ft_checkpoint_number())


def protected(checkpoint: int) -> bool:
    """Returns True if a loss rolls the job back to that checkpoint or a later one."""
    return bool(_lib.shmemx_ft_protected(checkpoint))


def flush() -> bool:
    """Waits until the last checkpoint protects (`SHMEM_FT_BACKGROUND`). Returns False if a PE was
    lost before that, which the next `checkpoint_all` reports."""
    return _lib.shmemx_ft_flush() == _SUCCESS


def event(array: NDArray[Any]) -> None:
    """Records a nondeterministic event, such as a time, random numbers or input. Under local
    rollback (`SHMEM_FT_ROLLBACK=local`), a replaying PE finds the recorded values in `array`."""
    _lib.shmemx_ft_event(_address(array), array.nbytes)


def need_checkpoint() -> bool:
    """Returns True if the next `checkpoint_all` saves or reports a loss. Collective."""
    return bool(_lib.shmemx_ft_need_checkpoint())


def should_stop() -> bool:
    """Returns True if the job was asked to stop, with its next checkpoint. Collective."""
    return bool(_lib.shmemx_ft_should_stop())


def survives(kind: int, number: int) -> Optional[bool]:
    """Returns whether the job in its current state survives the loss of a PE (kind 0), of a node
    (1) or of a larger failure domain (2 and up); None if the number does not exist."""
    answer = _lib.shmemx_ft_survives(kind, number)
    return None if answer < 0 else bool(answer)


class CheckpointSet:
    """A checkpoint on disk, of any number of PEs: `DIR@7`, or the newest whole set of `DIR`.

    `pes` is the number of PEs that wrote it, `objects` maps names to bytes. Each PE reads for
    itself. A failure raises `OSError`.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self._set = _lib.shmemx_ft_set_open(os.fsencode(folder))
        if self._set < 0:
            raise OSError(_lib.shmemx_ft_set_error().decode())
        self.pes, self.objects = 0, dict[str, int]()
        name, pes, size = ctypes.c_char_p(), ctypes.c_int(), ctypes.c_size_t()
        places = [ctypes.byref(place) for place in (name, pes, size)]
        while _lib.shmemx_ft_set_list(self._set, len(self.objects), *places) == _SUCCESS:
            self.pes = pes.value
            self.objects[(name.value or b"").decode()] = size.value

    def read(
        self, name: str, pe: int, dtype: DTypeLike = np.uint8, first: int = 0,
        count: Optional[int] = None,
    ) -> NDArray[Any]:
        """Returns `count` elements of an object of a PE, from element `first` on; without `count`
        all that it has on PE 0, for which `name` must be one of `objects`."""
        kind = np.dtype(dtype)
        if count is None:
            count = self.objects[name] // kind.itemsize - first
        array = np.empty(count, kind)
        offset, to = first * kind.itemsize, _address(array)
        words = (self._set, name.encode(), pe, offset, to, array.nbytes)
        if _lib.shmemx_ft_set_read(*words) != _SUCCESS:
            raise OSError(_lib.shmemx_ft_set_error().decode())
        return array

    def close(self) -> None:
        """Closes the set."""
        if self._set >= 0:
            _lib.shmemx_ft_set_close(self._set)
            self._set = -1

    def __enter__(self) -> CheckpointSet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def faulted() -> bool:
    """Returns True between a loss and `restart_pes`: gets return zeroes, puts are dropped."""
    return bool(_lib.shmemx_ft_faulted())


def last_error() -> Optional[str]:
    """Returns the reason why the last checkpoint was refused, or None."""
    text = _lib.shmemx_ft_last_error()
    return None if text is None else text.decode()


def protect(name: str, array: NDArray[Any]) -> None:
    """Adds a private array of this PE, which must stay until the end, to its checkpoints.

    A substitute protects the same names with arrays of the same size before its restart.
    """
    _kept[name] = array  # the library reads it from here on
    _check(_lib.shmemx_ft_protect(name.encode(), _address(array), array.nbytes), "protect", name)


def exclude(array: NDArray[Any]) -> None:
    """Excludes symmetric memory from later checkpoints; every PE must exclude the same memory."""
    _check(_lib.shmemx_ft_exclude(_address(array), array.nbytes), "exclude", "the array")


def include(array: NDArray[Any]) -> None:
    """Includes excluded symmetric memory in later checkpoints again."""
    _check(_lib.shmemx_ft_include(_address(array), array.nbytes), "include", "the array")


def readonly(array: NDArray[Any]) -> bool:
    """Declares symmetric memory read-only, so that no copy of it is kept. Collective.

    Returns False if it is treated like other memory; PE 0 prints the reason.
    """
    return bool(_lib.shmemx_ft_readonly(_address(array), array.nbytes) == 0)


def writable(array: NDArray[Any]) -> bool:
    """Makes read-only memory writable again. Collective.

    Returns False if a PE has no memory for a copy: it stays read-only.
    """
    return bool(_lib.shmemx_ft_writable(_address(array), array.nbytes) == 0)


def get(dest: NDArray[Any], source: NDArray[Any], pe: int) -> bool:
    """Reads `source` of a PE into `dest`. Returns False, and zeroes, if a PE is lost."""
    if dest.nbytes != source.nbytes:
        raise ValueError(f"dest has {dest.nbytes} bytes, source has {source.nbytes}")
    return _lib.shmemx_ft_get(_address(dest), _address(source), dest.nbytes, pe) == _SUCCESS


def get_checkpoint(dest: NDArray[Any], source: NDArray[Any], pe: int) -> Optional[int]:
    """Reads a PE's data of the last checkpoint, and returns its number; None if that is impossible.

    The data of a lost PE is decoded from parity. Only without rollback, in a mode with parity.
    """
    if dest.nbytes != source.nbytes:
        raise ValueError(f"dest has {dest.nbytes} bytes, source has {source.nbytes}")
    number, to, of = ctypes.c_uint64(), _address(dest), _address(source)
    status = _lib.shmemx_ft_get_checkpoint(to, of, dest.nbytes, pe, ctypes.byref(number))
    return number.value if status == _SUCCESS else None


def put2(dest: NDArray[Any], source: NDArray[Any], pe: int, shadow: int) -> bool:
    """Puts `source` to `dest` of a PE, and then of its shadow; both copies are complete on return.

    One copy is whole at any time, regardless of deaths. Returns False if either PE is lost. They
    must be on different nodes (`shadow`) if live PEs are on several, or the job ends.
    """
    if dest.nbytes != source.nbytes:
        raise ValueError(f"dest has {dest.nbytes} bytes, source has {source.nbytes}")
    to, of = _address(dest), _address(source)
    return _lib.shmemx_ft_put2(to, of, dest.nbytes, pe, shadow) == _SUCCESS


def shadow(team: shmem.Team, pe: int) -> Optional[int]:
    """Returns a member of a team suitable as the shadow of member `pe`; None if there is no other.

    It is on another node, if the team has a member there. All PEs get the same result.
    """
    found = int(_lib.shmemx_ft_shadow(_handle(team), pe))
    return None if found < 0 else found


# ---- shrink mode: SHMEM_FT_SUBSTITUTE=shrink, SHMEM_FT_ROLLBACK=none -----------------------------


class Agreed(NamedTuple):
    """The result of an agreement of all live members of a team."""

    value: int
    """The bits that all members set."""
    acknowledged: bool
    """True if every live member has acknowledged every loss in the team."""


def agree(team: shmem.Team, value: int) -> Agreed:
    """Returns the bitwise AND of the live members' 32-bit values, identical on all. Collective."""
    bits = ctypes.c_int(ctypes.c_int32(value & 0xFFFFFFFF).value)
    status = _lib.shmemx_ft_agree(_handle(team), ctypes.byref(bits))
    return Agreed(bits.value & 0xFFFFFFFF, status == _SUCCESS)


def shrink(team: shmem.Team) -> shmem.Team:
    """Returns a team of the live members, in the order of their numbers. Collective."""
    made = ctypes.c_void_p()
    if _lib.shmemx_ft_shrink(_handle(team), ctypes.byref(made)) != _SUCCESS:
        raise RuntimeError("shrink: a PE is in as many teams as there can be")
    return shmem.Team(ffi.cast("shmem_team_t", made.value or 0))


def failed(team: shmem.Team) -> list[int]:
    """Returns the members of a team that are lost and not replaced, by their numbers in it."""
    pes, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    status = _lib.shmemx_ft_failed(_handle(team), ctypes.byref(pes), ctypes.byref(count))
    if status != _SUCCESS:
        raise MemoryError("no memory for the list of PEs")
    numbers = [pes[i] for i in range(count.value)]
    _libc.free(ctypes.cast(pes, ctypes.c_void_p))
    return numbers


def on_fault(handler: Callable[[int, str], None]) -> None:
    """Calls `handler` with each lost PE, and the kind of loss, in a later call of this thread.

    It may call `query_fault` and `failed`, but nothing that involves other PEs.
    """
    called = _HANDLER(lambda pe, status, _: handler(pe, _LOSSES[status]))
    _handlers.append(called)  # the library calls it from here on
    _lib.shmemx_ft_on_fault(called, None)


def acknowledge() -> dict[int, str]:
    """Acknowledges the known losses, and returns them. Local; memory does not change."""
    lost = query_fault()
    _lib.shmem_restart_pes((ctypes.c_int * len(lost))(*lost), len(lost))
    return lost


def _handle(team: shmem.Team) -> int:
    return int(ffi.cast("uintptr_t", team.ob_team))


_handlers: list[Any] = []


def _check(status: int, call: str, what: str) -> None:
    if status != _SUCCESS:
        raise ValueError(f"{call}: {what} cannot be: {last_error() or 'not symmetric memory'}")


def _address(array: NDArray[Any]) -> int:
    if not array.flags.contiguous or not array.flags.writeable:
        raise ValueError("expected a contiguous array that can be written")
    return array.ctypes.data


_kept: dict[str, NDArray[Any]] = {}


# ---- arrays in symmetric memory ------------------------------------------------------------------

Shape = Union[int, "tuple[int, ...]"]


def zeros(shape: Shape, dtype: DTypeLike = float) -> NDArray[Any]:
    """Returns a new array of zeroes in symmetric memory. Collective."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    address = _lib.shmem_calloc(max(count, 1), kind.itemsize)
    if address is None:
        raise MemoryError(f"no symmetric memory for {count * kind.itemsize} bytes")
    return _view(address, shape, kind)


empty = zeros


def array(values: ArrayLike, dtype: DTypeLike = None) -> NDArray[Any]:
    """Returns a new symmetric array with these values, of one shape on all PEs. Collective."""
    values = np.asarray(values, dtype)
    made = zeros(values.shape, values.dtype)
    made[...] = values
    shmem.sync_all()  # no PE reads values that are not there yet
    return made


def free(array: NDArray[Any]) -> None:
    """Frees the memory of an array of this module, which must not be used any more. Collective."""
    _lib.shmem_free(_address(array))


def _view(address: int, shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    count = int(np.prod(shape, dtype=np.int64))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype, count).reshape(shape)


# ---- the loop ------------------------------------------------------------------------------------

Begin = Callable[[], Mapping[str, NDArray[Any]]]
Step = Callable[[Any, int], Optional[bool]]


class _Table:
    """The loop's step and the addresses of its arrays, in private memory that checkpoints hold."""

    _NAME, _BYTES = "raidshmem.run", 1 << 16

    def __init__(self) -> None:
        self._memory = np.zeros(self._BYTES, "u1")
        protect(self._NAME, self._memory)

    def read(self) -> Optional[dict[str, Any]]:
        """Returns None if nothing was written yet, as in a checkpoint before the first step."""
        text = self._memory.tobytes().rstrip(b"\0")
        return json.loads(text) if text else None

    def write(self, table: dict[str, Any]) -> None:
        text = json.dumps(table).encode()
        if len(text) > self._BYTES:
            raise ValueError(f"the names and shapes of the arrays take {len(text)} bytes; "
                             f"expected {self._BYTES} or less")
        self._memory[: len(text)] = np.frombuffer(text, "u1")
        self._memory[len(text) :] = 0


def _described(data: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: [_address(a), list(a.shape), a.dtype.str] for name, a in data.items()}


def _found(arrays: Mapping[str, Any]) -> types.SimpleNamespace:
    views = {
        name: _view(address, tuple(shape), np.dtype(dtype))
        for name, (address, shape, dtype) in arrays.items()
    }
    return types.SimpleNamespace(**views)


def run(begin: Begin, step: Step) -> Any:
    """Runs a program as steps between checkpoints, over every loss that the parity covers.

    `begin()` makes the arrays (`zeros`, `array`) and returns them by name. `step(data, number)`
    has them as attributes of `data`, and works from one checkpoint to the next; it returns True
    when the work is done. After a loss every PE, including a substitute, continues from the last
    checkpoint, so both may be called again for the same work. Exceptions raised while a PE is
    lost are ignored, because gets return zeroes then; others end the loop. A refused checkpoint
    is skipped. Returns the final arrays, once every PE has finished.
    """
    table = _Table()
    while True:
        try:
            checkpoint_all()
        except (Lost, Refused):
            restart_pes()
            continue
        at = table.read()
        if at is not None and at["done"]:
            if not flush():
                continue  # the next checkpoint reports it
            return _found(at["arrays"])
        try:
            if at is None:
                at = {"step": 0, "done": False, "arrays": _described(begin())}
            else:
                at["done"] = bool(step(_found(at["arrays"]), at["step"]))
                at["step"] += 1
        except Exception:
            if not faulted():
                raise
            continue  # the next checkpoint reports it
        table.write(at)
