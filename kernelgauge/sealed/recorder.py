"""Runs in a cell: call a launcher on tensors without contents, and tell what it asks for.

    python -s -P recorder.py DESCRIPTOR FOLDER UID

This file is all that a cell has of the judge. The process is the cell's supervisor. It imports
torch and Triton once, and forks for each test a process of its own, which executes the subject's
file. Nothing that it tells is believed: it is a request to the judge, which makes the allocations
and launches the kernels itself, on memory that this process never sees.

Every message is a line of JSON. Of the judge: ["open", test, file, function, gpus], ["call", ...],
a value that was asked for, ["close", test]. Of the cell, a line for each thing that is done:

    ["new", number, dtype, shape, strides, device, like, fill]     an allocation
    ["fill", tensor, value]
    ["launch", place, launch]                                      see `_launch`
    ["on", tensor], ["off"], ["meet", tensors]                     chapter 18's two functions
    ["read", tensor]                                               the judge answers with its value
    ["return", value, kept, alive]      ["raise", ...]      ["refuse", ...]       ends the call

A tensor is ["tensor", storage, dtype, shape, strides, bytes from the storage's beginning].
"""

import ast
import contextlib
import dataclasses
import gc
import inspect
import io
import json
import os
import resource
import signal
import socket
import sys
import textwrap
import types

import torch
import triton.language as tl
from torch._library import custom_ops
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonJITFunction
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.driver import driver
from triton.runtime.jit import ConstexprFunction, JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

aten = torch.ops.aten
EMPTY = ("empty", "empty_strided", "empty_permuted", "empty_like", "new_empty", "new_empty_strided")
# What fills, and which argument is the value.
FILLED = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
FULL = {"full": 1, "full_like": 1, "new_full": 2}
FACTORIES = (
    torch.empty,
    torch.empty_strided,
    torch.empty_permuted,
    torch.zeros,
    torch.ones,
    torch.full,
)
READS = {
    "item": None,
    "__bool__": bool,
    "__int__": int,
    "__float__": float,
    "__index__": int,
    "is_nonzero": bool,
}
DESCRIPTORS = (TensorDescriptor, GluonDescriptor)
# What an aggregate has of functions.
METHODS = {JITFunction: "triton", GluonJITFunction: "gluon", ConstexprFunction: "constexpr"}
ESCAPES = ("numpy", "tolist", "__array__", "__dlpack__", "share_memory_")
# Bytes: what a process may allocate beside what it begins with, and what it may write to a file.
MEMORY, FILE, PROCESSES, SECONDS = 2**30, 2**24, 16, 120


class Refused(Exception):
    """The launcher did what no launcher may."""

    def __init__(self, said, remedy=None, **values):
        super().__init__(said)
        self.told = ["refuse", said, values, remedy, place()]


def place():
    """Return [file, line, function] of the innermost line of the subject that runs."""
    frame = sys._getframe(1)
    while frame and not frame.f_code.co_filename.startswith(FOLDER):
        frame = frame.f_back
    return frame and [frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name]


class Session:
    """One test: the storages that the launcher knows, by the addresses of their records in torch.

    refused: the first thing that it did and may not do
    """

    def __init__(self, pipe):
        self.pipe, self.events, self.refused = pipe, [], None
        self.storages, self.devices, self.aligned, self.weak = {}, {}, {}, {}
        self.kernels, self.tuners, self.number = {}, {}, 0
        # Keep what the numbers stand for.
        self.held = []

    def tell(self, *event):
        self.events.append(event)

    def flush(self):
        self.pipe.write("".join(json.dumps(it) + "\n" for it in self.events).encode())
        self.pipe.flush()
        self.events = []

    def refuse(self, *args, **values):
        refused = Refused(*args, **values)
        self.refused = self.refused or refused
        return refused

    def know(self, tensor, number, device, aligned=0):
        storage = tensor.untyped_storage()
        self.storages[storage._cdata] = number
        self.devices[number], self.aligned[number] = device, aligned
        self.weak[number] = StorageWeakRef(storage)

    def number_of(self, tensor):
        return self.storages.get(tensor.untyped_storage()._cdata)

    def device_of(self, tensor):
        return torch.device(self.devices.get(self.number_of(tensor), "cpu"))

    def encode(self, value):
        if isinstance(value, tl.constexpr):
            return ["constexpr", self.encode(value.value)]
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Tensor):
            number = self.number_of(value) if value.layout == torch.strided else None
            at = value.storage_offset() * value.element_size()
            return [
                "tensor",
                number,
                name_of(value.dtype),
                list(value.shape),
                list(value.stride()),
                at,
            ]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [
                "named",
                type(value).__name__,
                list(value._fields),
                [self.encode(x) for x in value],
            ]
        if isinstance(value, (tuple, list)):
            # A torch.Size is a tuple.
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, [self.encode(x) for x in value]]
        if isinstance(value, torch.dtype):
            return ["dtype", name_of(value)]
        if isinstance(value, complex):
            return ["complex", value.real, value.imag]
        if isinstance(value, tl.dtype):
            return ["tl", "triton.language", str(value)]
        if isinstance(value, DESCRIPTORS):
            shape, strides, block = (
                list(map(int, it)) for it in (value.shape, value.strides, value.block_shape)
            )
            layout = self.encode(getattr(value, "layout", None))
            told = self.encode(value.base), shape, strides, block, value.padding, layout
            return ["descriptor", *told]
        if is_of_triton(value):
            return ["tl", value.fn.__module__, value.fn.__name__]
        if isinstance(value, (JITFunction, Heuristics, Autotuner)):
            return ["kernel", self.kernel(value)]
        if is_aggregate(value):
            return ["kernel", self.aggregate(value)]
        if is_layout(value):
            fields = {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
            kinds = type(value).__mro__
            own = next(it for it in kinds if "__dataclass_fields__" in vars(it))
            return ["layout", own.__name__, {n: self.encode(it) for n, it in fields.items()}]
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        if str(getattr(value, "__module__", "")).startswith("triton."):
            return ["tl", value.__module__, getattr(value, "__name__", "")]
        if isinstance(value, int):
            return int(value)
        return ["object", type(value).__name__]

    def kernel(self, kernel):
        """Return the number of a kernel, which is told when it is first used."""
        while not isinstance(kernel, JITFunction):
            kernel = kernel.fn
        fn = kernel.fn
        if kernel in self.kernels:
            return self.kernels[kernel]
        number = self.kernels[kernel] = len(self.kernels)
        with contextlib.suppress(OSError, SyntaxError):
            values = self.names(fn)
            options = {
                n: v
                for n in ("do_not_specialize", "do_not_specialize_on_alignment")
                if (v := getattr(kernel, n, None))
            }
            options |= {"noinline": True} if kernel.noinline else {}
            code = fn.__code__
            self.tell(
                "kernel",
                number,
                code.co_filename,
                code.co_firstlineno,
                fn.__name__,
                values,
                self.encode(options_of(options)),
                type(kernel).__module__,
            )
            return number
        raise self.refuse("kernel-without-source", kernel=fn.__name__)

    def names(self, fn):
        """Return what the global names of a function stand for."""
        cells = [it.cell_contents for it in fn.__closure__ or ()]
        known = fn.__globals__ | dict(zip(fn.__code__.co_freevars, cells, strict=True))
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return {name: self.encode(known[name]) for name in sorted(names & known.keys())}

    def aggregate(self, made):
        """Return the number of an aggregate, among those of kernels."""
        if made in self.kernels:
            return self.kernels[made]
        number = self.kernels[made] = len(self.kernels)
        kind = inspect.getclosurevars(made.__new__).nonlocals["cls"]
        members = {**vars(made), "__init__": kind.__init__}
        methods = {n: it for n, it in members.items() if type(it) in METHODS}
        with contextlib.suppress(OSError, TypeError, SyntaxError):
            file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
            values = {}
            for it in methods.values():
                values |= self.names(it.fn)
            fields = {n: self.encode(it) for n, it in inspect.get_annotations(kind).items()}
            told = {n: METHODS[type(it)] for n, it in methods.items()}
            self.tell("aggregate", number, file, line, kind.__name__, values, fields, told)
            return number
        raise self.refuse("kernel-without-source", kernel=kind.__name__)

    def read(self, tensor):
        self.tell("read", self.encode(tensor))
        self.flush()
        return receive(self.pipe)[1]


def is_of_triton(value):
    """Whether this is a kernel that Triton's own language comes with."""
    return isinstance(value, JITFunction) and str(value.fn.__module__).startswith("triton.")


def is_aggregate(value):
    made = isinstance(value, type) and getattr(value, "__triton_aggregate__", False)
    return made and not value.__module__.startswith("triton.")


def is_layout(value):
    made = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return made and type(value).__module__.startswith("triton.experimental.gluon.language")


def options_of(options):
    return tuple(
        (name, tuple(value) if isinstance(value, (list, tuple)) else value)
        for name, value in options.items()
    )


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


# What the judge tells of its GPUs, None in the interpreter: see kernelgauge/sealed/gpus.py.
gpus = None


def index_of(device=None):
    """Return the number of a GPU named as torch.cuda takes it, the current one by default."""
    if device is None:
        return gpus["current"]
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return gpus["current"] if index is None else index


def name_of_device(device):
    device = torch.device(device)
    return f"cuda:{index_of(device)}" if gpus and device.type == "cuda" else str(device)


class Gpu:
    """Stands for torch.cuda.device: one GPU is current, and the judge launches on it."""

    def __init__(self, device):
        if device is not None and index_of(device) != gpus["current"]:
            raise RuntimeError("a sealed launcher uses another GPU with the functions of its stub")
        self.idx = gpus["current"]

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return False


class Stream:
    """Stands for the current stream, the only one that there is."""

    cuda_stream = stream_id = 0

    def __init__(self, *args, **kwargs):
        raise self.changed()

    @staticmethod
    def changed(*_, **__):
        said = "changes-the-stream", "launch-on-the-current-stream"
        return current.refuse(*said) if current else Refused(*said)

    @property
    def device(self):
        return torch.device("cuda", gpus["current"])

    def nothing(self, *_, **__):
        pass

    synchronize = wait_stream = wait_event = record_event = nothing

    def query(self):
        return True


def pretend(told):
    """Let torch.cuda and Triton's driver say of the judge's GPUs what it told."""
    global gpus
    gpus = told
    if gpus is None:
        return
    devices = [types.SimpleNamespace(**it) for it in gpus["devices"]]
    stream = object.__new__(Stream)

    def properties(device=None):
        return devices[index_of(device)]

    def change(*_, **__):
        raise Stream.changed()

    def nothing(*_, **__):
        pass

    answers = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: len(devices),
        "current_device": index_of,
        "get_device_properties": properties,
        "get_device_name": lambda device=None: properties(device).name,
        "get_device_capability": lambda device=None: (
            properties(device).major,
            properties(device).minor,
        ),
        "device": Gpu,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "Stream": Stream,
        **dict.fromkeys(("stream", "set_stream"), change),
        **dict.fromkeys(("init", "_lazy_init", "synchronize", "empty_cache"), nothing),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    utils = types.SimpleNamespace(get_device_properties=lambda number: gpus["driver"][number])
    driver.set_active(
        types.SimpleNamespace(
            utils=utils,
            get_current_device=index_of,
            get_active_torch_device=lambda: torch.device("cuda", index_of()),
            get_current_target=lambda: GPUTarget(*gpus["target"]),
            get_current_stream=lambda device=None: 0,
            get_device_interface=lambda: torch.cuda,
            is_active=lambda: True,
        )
    )


class Functions(TorchFunctionMode):
    """Answers what a tensor without contents cannot, and puts what is allocated on no device."""

    def __init__(self, session):
        super().__init__()
        self.session = session

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        session, first = self.session, args[0] if args else None
        if name == "__get__":
            what = getattr(func.__self__, "__name__", "")
            if what == "device":
                return session.device_of(first)
            if what == "is_cuda":
                return session.device_of(first).type == "cuda"
            if what in ("is_meta", "is_cpu"):
                return what == "is_cpu" and session.device_of(first).type == "cpu"
        elif name == "get_device":
            index = session.device_of(first).index
            return -1 if index is None else index
        elif name == "data_ptr":
            number = session.number_of(first)
            aligned = session.aligned.get(number, 0)
            return (
                (((number or 0) + 1) << 44)
                + aligned
                + first.storage_offset() * first.element_size()
            )
        elif name in READS and isinstance(first, torch.Tensor):
            value = session.read(first)
            return READS[name](value) if READS[name] else value
        elif name in ESCAPES and isinstance(first, torch.Tensor):
            raise session.refuse("uses-a-tensor-method", "compute-in-triton", method=name)
        if (
            func in FACTORIES
            and kwargs.get("device") is None
            and sys._getframe(1).f_code.co_filename.startswith(FOLDER)
        ):
            raise session.refuse("allocates-without-a-device", "pass-the-device", function=name)
        device = kwargs.get("device")
        if device is not None:
            self.asked = name_of_device(device)
            kwargs["device"] = "meta" if self.asked != "meta" or first is not None else device
        args = tuple("meta" if isinstance(it, torch.device) else it for it in args)
        if name in ("to", "cuda") and gpus and session.device_of(first).type == "cuda":
            # Where it lies already.
            args = (first, *(it for it in args[1:] if not isinstance(it, (str, int))))
            return first if len(args) == 1 and not kwargs else func(*args, **kwargs)
        try:
            return func(*args, **kwargs)
        finally:
            self.asked = None

    asked = None


@contextlib.contextmanager
def in_backward_passes(functions):
    """Let them see what forward passes see: torch takes modes off while autograd.grad runs."""
    node = torch.autograd.function.BackwardCFunction
    own = node.apply

    def apply(self, *args):
        with functions:
            return own(self, *args)

    node.apply = apply
    try:
        yield
    finally:
        node.apply = own


class Operations(TorchDispatchMode):
    """Sees each operation: allocations are told, views made, and everything else is refused."""

    def __init__(self, session, functions):
        super().__init__()
        self.session, self.functions = session, functions

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, session = dict(kwargs or {}), self.session
        name = func.overloadpacket.__name__
        first = args[0] if args else None
        if (
            func.namespace == "aten"
            and (name in EMPTY or name in FILLED or name in FULL)
            and func.is_view is False
        ):
            kwargs["device"] = "meta"
            made = func(*args, **kwargs)
            fill = FILLED.get(name)
            if name in FULL:
                fill = args[FULL[name]]
            number, session.number = session.number, session.number + 1
            like = session.encode(first) if isinstance(first, torch.Tensor) else None
            device = self.functions.asked or (str(session.device_of(first)) if like else "cpu")
            session.know(made, number, device)
            session.tell(
                "new",
                number,
                name_of(made.dtype),
                list(made.shape),
                list(made.stride()),
                device,
                like,
                fill,
            )
            return made
        if func.namespace == "profiler" or name == "detach":
            return func(*args, **kwargs)
        if name in ("lift_fresh", "lift_fresh_copy"):
            raise session.refuse("imports-data", "allocate-with-torch")
        if func.is_view:
            return func(*args, **kwargs)
        if func in (aten.fill_.Scalar, aten.zero_.default) and session.number_of(first) is not None:
            session.tell("fill", session.encode(first), args[1] if name == "fill_" else 0)
            return first
        if func is aten._local_scalar_dense.default:
            return session.read(first)
        if made := custom_ops.OPDEFS.get(func._schema.name):
            # What torch.library.custom_op made of a function of the subject's.
            with self.functions, self:
                return made._init_fn(*args, **kwargs)
        copies = func in (aten.clone.default, aten._to_copy.default, aten.copy_.default)
        remedy = "pass-strides" if copies else "only-launch-in-the-launcher"
        raise session.refuse("uses-a-torch-operation", remedy, operation=name.removesuffix("_"))


current = None


def run(kernel, *args, grid, warmup=False, **kwargs):
    """Stand in for the run of every kind of kernel: tell the launch."""
    if warmup:
        return
    if current is None:
        raise RuntimeError("a kernel was launched outside a call")
    nest = nested(kernel, args, kwargs, grid)
    arguments = (
        [current.encode(it) for it in args],
        {n: current.encode(v) for n, v in kwargs.items()},
    )
    current.tell("launch", place(), current.kernel(kernel), *arguments, nest)


def nested(kernel, args, kwargs, grid):
    """Return ["tuned", tuner, ...] with what lies below each config, or ["plain", values, grid]."""
    values = {}
    while isinstance(kernel, Heuristics):
        for name, choose in kernel.values.items():
            placed = dict(zip(kernel.arg_names, args, strict=False))
            values[name] = choose({**placed, **kwargs, **values})
        kernel = kernel.fn
    kwargs = kwargs | values
    told = {name: current.encode(value) for name, value in values.items()}
    if isinstance(kernel, Autotuner):
        return ["tuned", told, *tuned(kernel, args, kwargs, grid)]
    if callable(grid):
        given = {name: value for name, value in kwargs.items() if name in kernel.arg_names}
        try:
            bound = inspect.signature(kernel.fn).bind(*args, **given)
        except TypeError:
            # The judge finds the same when it binds them.
            return ["plain", told, ["tuple", [1]]]
        bound.apply_defaults()
        plain = {
            n: v.value if isinstance(v, tl.constexpr) else v for n, v in bound.arguments.items()
        }
        grid = grid(plain)
    return ["plain", told, current.encode(grid)]


def tuned(tuner, args, kwargs, grid):
    if tuner.user_defined_pre_hook or tuner.user_defined_post_hook:
        raise current.refuse("hook-in-a-cell", kernel=tuner.base_fn.__name__)
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    configs = list(tuner.configs)
    pruned = list(tuner.prune_configs(kwargs)) if len(configs) > 1 else configs
    told = []
    for config in pruned:
        given = kwargs | config.all_kwargs()
        hook = hooked(config, {**tuner.nargs, **given}) if config.pre_hook else None
        told.append([configured(config), hook, nested(tuner.fn, args, given, grid)])
    number = current.tuners.setdefault(tuner, len(current.tuners))
    keys, zeroed, restored = (
        [str(it) for it in its] for its in (tuner.keys, tuner.reset_to_zero, tuner.restore_value)
    )
    return number, [configured(it) for it in configs], keys, zeroed, restored, told


def configured(config):
    options = {
        name: current.encode(value)
        for name, value in vars(config).items()
        if name not in ("kwargs", "pre_hook", "ir_override")
    }
    return [{name: current.encode(value) for name, value in config.kwargs.items()}, options]


def hooked(config, named):
    """Return what a config's hook fills, and the descriptors as it leaves them."""
    before, current.events = current.events, []
    config.pre_hook(named)
    fills, current.events = current.events, before
    return [
        fills,
        {n: current.encode(v) for n, v in named.items() if isinstance(v, DESCRIPTORS)},
    ]


def leaf(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().requires_grad_()
    return value


def differentiated(function, args, kwargs):
    """Return (out, *gradients), as the judge's Differentiable does, and what the graph holds."""
    dout = kwargs.pop("dout", None)
    if dout is None:
        return (function(*args, **kwargs),), []
    leaves = [leaf(it) for it in args]
    out = function(*leaves, **kwargs)
    if not isinstance(out, torch.Tensor) or out.grad_fn is None:
        raise current.refuse("no-backward-pass", "return-what-apply-returns")
    kept, seen, nodes = [], set(), [out.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            kept += getattr(node, "saved_tensors", ())
            kept += [
                it
                for it in tree_leaves(getattr(node, "__dict__", {}))
                if isinstance(it, torch.Tensor)
            ]
            nodes += [following for following, _ in node.next_functions]
    named = dict(zip(inspect.signature(function).parameters, leaves, strict=False))
    given = {n: x for n, x in named.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    gradients = torch.autograd.grad(out, list(given.values()), dout, allow_unused=True)
    for parameter, gradient in zip(given, gradients, strict=True):
        if gradient is None:
            raise current.refuse("no-gradient", parameter=parameter)
    return (out.detach(), *gradients), kept


def decode(session, value):
    """Return an argument of a call, tensors without contents."""
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind in ("tuple", "list"):
        items = [decode(session, it) for it in rest[0]]
        return tuple(items) if kind == "tuple" else items
    if kind == "dtype":
        return getattr(torch, rest[0])
    if kind == "complex":
        return complex(*rest)
    number, dtype, shape, strides, at = rest
    storage, dtype = session.bases[number].untyped_storage(), getattr(torch, dtype)
    key = json.dumps(value)
    if key not in session.inputs:
        empty = torch.empty(0, dtype=dtype, device="meta")
        session.inputs[key] = empty.set_(storage, at // dtype.itemsize, shape, strides)
    return session.inputs[key]


def call(session, function, bases, args, kwargs, given, gradients):
    """Run the launcher once and tell how it ended."""
    global current
    current, session.refused = session, None
    session.bases, session.inputs = {}, {}
    for number, size, device, aligned in bases:
        session.bases[number] = torch.empty(size, dtype=torch.uint8, device="meta")
        session.know(session.bases[number], number, device, aligned)
        session.number = max(session.number, number + 1)
    args = [decode(session, it) for it in args]
    kwargs = {name: decode(session, it) for name, it in kwargs.items()}
    names = getattr(function, "__globals__", {})
    before = {name: names.get(name) for name in given}
    names |= {name: lambda *_, value=value: value for name, value in given.items()}
    functions = Functions(session)
    try:
        with Operations(session, functions), functions, in_backward_passes(functions):
            kept = []
            if gradients:
                result, kept = differentiated(function, args, kwargs)
            else:
                result = function(*args, **kwargs)
        if session.refused:
            raise session.refused
        value, kept = session.encode(result), session.encode(kept)
        # What the launcher itself keeps, and not what this call holds.
        del result, args, kwargs
        session.bases, session.inputs = {}, {}
        alive = [number for number, weak in session.weak.items() if not weak.expired()]
        session.tell("return", value, kept, alive)
    except BaseException as error:
        error = session.refused or error
        session.tell(*(error.told if isinstance(error, Refused) else raised(error)))
    names |= before
    current, session.bases, session.inputs = None, {}, {}
    session.flush()


def raised(error):
    """Return what is told of an exception: its class and those below, its text, and where."""
    frames, trace = [], error.__traceback__
    while trace:
        frames.append(
            [trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame.f_code.co_name]
        )
        trace = trace.tb_next
    own = [frame for frame in frames if frame[0].startswith(FOLDER)]
    if isinstance(error, SyntaxError) and error.filename:
        own = [[error.filename, error.lineno or 0, ""]]
    names = [kind.__name__ for kind in type(error).__mro__]
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)[:10_000]
    except Exception:
        text = None
    return ["raise", names, text, own[-1] if own else None, bool(own) and own[-1] == frames[-1]]


def meet_in_the_open(module):
    """Let chapter 18's two functions be requests to the judge. Returns whether there are any."""
    found = [getattr(module, name, None) for name in ("on", "meet")]
    if not all(isinstance(it, types.FunctionType) and not it.__closure__ for it in found):
        return False

    @contextlib.contextmanager
    def on(x):
        current.tell("on", current.encode(x))
        try:
            yield
        finally:
            current.tell("off")

    def meet(tensors):
        current.tell("meet", current.encode(list(tensors)))

    for function, other in zip(found, (on, meet), strict=True):
        here = function.__globals__
        here[f"_recorded_{function.__name__}"] = other
        made = {}
        exec(f"def forward(*a, **k):\n    return _recorded_{function.__name__}(*a, **k)", made)
        function.__code__ = made["forward"].__code__
    return True


def serve(pipe, file, name, told):
    """Load the subject's file, and answer calls until the judge closes the test."""
    session = Session(pipe)
    pretend(told)
    module = types.ModuleType("subject")
    module.__file__ = file
    sys.modules["subject"] = module
    function = None
    sys.path[:0] = [os.path.dirname(file), FOLDER.rstrip("/")]
    try:
        with open(file, "rb") as source:
            exec(compile(source.read(), file, "exec"), vars(module))
        function = getattr(module, name, None)
        what = (
            "missing"
            if function is None
            else "function"
            if callable(function)
            else type(function).__name__
        )
        session.tell("opened", what, meet_in_the_open(module))
    except BaseException as error:
        session.tell(*raised(error))
    session.flush()
    while True:
        call(session, function, *receive(pipe)[1:])


def receive(pipe):
    line = pipe.readline()
    if not line:
        os._exit(0)
    message = json.loads(line)
    if message[0] == "open":
        pipe.test = message[1]
    elif message[0] == "close":
        # Also in the middle of a call, where the judge has seen enough. A test whose process ended
        # by itself may be closed when the next one waits already.
        if message[1] == getattr(pipe, "test", None):
            os._exit(0)
        return receive(pipe)
    return message


def confine(user):
    """Give up what the supervisor has: its user, and most of what a process may use."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    memory = pages * resource.getpagesize() + MEMORY
    limits = {
        "AS": memory,
        "FSIZE": FILE,
        "NPROC": PROCESSES,
        "CPU": SECONDS,
        "NOFILE": 128,
        "CORE": 0,
    }
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    # Where the machine's memory runs out, cells end first.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    os.chdir("/tmp")


def warm_up():
    """Have torch import now what it imports at its first call without contents."""

    def launcher(x):
        y = torch.empty_like(x)
        return y.T, torch.zeros(3, 3, device=x.device).fill_(1)[1:]

    session = Session(io.BytesIO())
    given = ["tensor", 0, "float32", [4, 4], [4, 1], 0]
    call(session, launcher, [[0, 64, "cpu", 0]], [given], {}, {}, False)
    call(session, launcher, [[9, 64, "cpu", 0]], [["tensor", 9, *given[2:]]], {}, {}, True)


def main(descriptor, user):
    channel = socket.socket(fileno=descriptor)
    pipe = io.BufferedRWPair(*(socket.SocketIO(channel, it) for it in "rw"))
    torch.set_num_threads(1)
    for kind in (JITFunction, Autotuner, Heuristics):
        kind.run = run
    warm_up()
    pipe.write(b'["ready"]\n')
    pipe.flush()
    gc.collect()
    gc.freeze()
    while True:
        # Forked ahead: it waits for the next test to be opened.
        child = os.fork()
        if not child:
            try:
                confine(user)
                serve(pipe, *receive(pipe)[2:])
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        with contextlib.suppress(OSError):
            # All that the test has left behind.
            os.kill(-1, signal.SIGKILL)
        while True:
            try:
                os.waitpid(-1, os.WNOHANG)
                break
            except OSError:
                break
        pipe.write(json.dumps(["closed", os.waitstatus_to_exitcode(status)]).encode() + b"\n")
        pipe.flush()


if __name__ == "__main__":
    FOLDER = sys.argv[2]
    main(int(sys.argv[1]), int(sys.argv[3]))
