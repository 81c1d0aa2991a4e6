"""Which functions of torch.distributed are recorded, and where each has its tensor, its group, its root or its peer
(xpurun_torch.py). Three kinds: the functions of distributed_c10d, the methods of a process group that a program calls
directly, and the functional collectives (DTensor, tensor parallelism)."""


class Call:
    """One function. Parameters are given by name, because their positions differ between releases of torch."""

    __slots__ = ("op", "tensor", "partner", "group", "names", "is_collective", "is_async", "partner_is_global",
                 "tensor_position", "counts")

    def __init__(self, op, tensor=None, partner=None, group="group", names=None, is_collective=True, is_async=False,
                 partner_is_global=True, tensor_position=0, counts=None):
        self.op = op
        self.tensor = tensor  # None: no tensor
        self.partner = partner  # the root of a collective, the peer of a message
        self.group = group
        self.names = names  # of the parameters; None: those of the function's code
        self.is_collective = is_collective
        self.is_async = is_async  # its return never marks the end of the operation
        self.partner_is_global = partner_is_global  # else its rank in the group
        self.tensor_position = tensor_position  # where the function has no such parameter
        self.counts = counts  # what `tensor` is a list of, if not of tensors


def message(op, tensor, partner, is_async=False):
    return Call(op, tensor, partner, is_collective=False, is_async=is_async)


PUBLIC = {
    "all_reduce": Call("all_reduce", "tensor"),
    "all_reduce_coalesced": Call("all_reduce_coalesced", "tensors"),
    "broadcast": Call("broadcast", "tensor", "src"),
    "reduce": Call("reduce", "tensor", "dst"),
    "all_gather": Call("all_gather", "tensor", tensor_position=1),
    "all_gather_into_tensor": Call("all_gather", "input_tensor", tensor_position=1),
    "_all_gather_base": Call("all_gather", "input_tensor", tensor_position=1),
    "all_gather_single": Call("all_gather", "input_tensor", tensor_position=1),
    "all_gather_coalesced": Call("all_gather_coalesced", "input_tensor_list", tensor_position=1),
    "gather": Call("gather", "tensor", "dst"),
    "gather_into_tensor": Call("gather", "tensor", "dst"),
    "gather_single": Call("gather", "tensor", "dst"),
    "scatter": Call("scatter", "tensor", "src"),
    "reduce_scatter": Call("reduce_scatter", "output"),
    "reduce_scatter_tensor": Call("reduce_scatter", "output"),
    "reduce_scatter_single": Call("reduce_scatter", "output"),
    "_reduce_scatter_base": Call("reduce_scatter", "output"),
    "all_to_all_single": Call("all_to_all", "input", tensor_position=1),
    "all_to_all": Call("all_to_all", "input_tensor_list", tensor_position=1),
    "barrier": Call("barrier"),
    "monitored_barrier": Call("barrier"),
    "all_gather_object": Call("all_gather_object"),
    "gather_object": Call("gather_object", None, "dst"),
    "broadcast_object_list": Call("broadcast_object_list", "object_list", "src", counts="objects"),
    "scatter_object_list": Call("scatter_object_list", None, "src"),
    # All ranks of the world, or of the parent, must call it: a rank that skips the call leaves the others waiting.
    "new_group": Call("new_group"),
    "split_group": Call("split_group", group="parent_pg"),
    "send": message("send", "tensor", "dst"),
    "recv": message("recv", "tensor", "src"),
    "isend": message("send", "tensor", "dst", is_async=True),  # batch_isend_irecv calls isend and irecv
    "irecv": message("recv", "tensor", "src", is_async=True),
    "send_object_list": message("send_object_list", None, "dst"),
    "recv_object_list": message("recv_object_list", None, "src"),
}


def method(op, names, tensor=None, partner=None, is_collective=True):
    return Call(op, tensor, partner, "self", ("self", *names), is_collective, True, False)


# The last parameter is a value or an object with options, which holds the root and the reduction.
METHODS = {
    "allreduce": method("all_reduce", ("tensors", "op"), "tensors"),
    "allreduce_coalesced": method("all_reduce_coalesced", ("tensors", "op"), "tensors"),
    "broadcast": method("broadcast", ("tensors", "root"), "tensors", "root"),
    "reduce": method("reduce", ("tensors", "root", "op"), "tensors", "root"),
    "allgather": method("all_gather", ("output_tensors", "input_tensors", "opts"), "input_tensors"),
    "_allgather_base": method("all_gather", ("output", "input", "opts"), "input"),
    "allgather_coalesced": method("all_gather_coalesced", ("output_lists", "input_list", "opts"), "input_list"),
    "allgather_into_tensor_coalesced": method("all_gather_coalesced", ("outputs", "inputs", "opts"), "inputs"),
    "gather": method("gather", ("output_tensors", "input_tensors", "root"), "input_tensors", "root"),
    "scatter": method("scatter", ("output_tensors", "input_tensors", "root"), "output_tensors", "root"),
    "reduce_scatter": method("reduce_scatter", ("output_tensors", "input_tensors", "op"), "output_tensors"),
    "_reduce_scatter_base": method("reduce_scatter", ("output", "input", "op"), "output"),
    "reduce_scatter_tensor_coalesced": method("reduce_scatter_coalesced", ("outputs", "inputs", "op"), "outputs"),
    "alltoall": method("all_to_all", ("output_tensors", "input_tensors", "opts"), "input_tensors"),
    "alltoall_base": method("all_to_all", ("output", "input", "output_splits", "input_splits", "opts"), "input"),
    "barrier": method("barrier", ("opts",)),
    "send": method("send", ("tensors", "dst", "tag"), "tensors", "dst", False),
    "recv": method("recv", ("tensors", "src", "tag"), "tensors", "src", False),
}
# Other names of the same methods, from torch 2.14 on.
METHODS.update({
    "all_gather_single": METHODS["_allgather_base"],
    "all_gather_single_coalesced": METHODS["allgather_into_tensor_coalesced"],
    "all_to_all_single": METHODS["alltoall_base"],
    "gather_into_tensor": method("gather", ("output", "input", "root"), "input", "root"),
    "gather_single": method("gather", ("output", "input", "root"), "input", "root"),
    "reduce_scatter_single": METHODS["_reduce_scatter_base"],
    "reduce_scatter_single_coalesced": METHODS["reduce_scatter_tensor_coalesced"],
})
# Keywords of a method's other overloads and releases.
OTHER_KEYWORDS = {"tensor": "tensors", "dstRank": "dst", "srcRank": "src", "input_tensor": "input_tensors",
                  "output_tensor": "output_tensors", "outputTensor": "output", "inputTensor": "input"}


def functional(op, partner=None):
    """The tensor, or the list of tensors, is the first parameter."""
    return Call(op, "self", partner, is_async=True, partner_is_global=False)


FUNCTIONAL = {
    "all_reduce": functional("all_reduce"), "all_reduce_coalesced": functional("all_reduce_coalesced"),
    "broadcast": functional("broadcast", "src"),
    "all_gather_tensor": functional("all_gather"), "all_gather_tensor_autograd": functional("all_gather"),
    "all_gather_into_tensor_coalesced": functional("all_gather_coalesced"),
    "reduce_scatter_tensor": functional("reduce_scatter"),
    "reduce_scatter_tensor_autograd": functional("reduce_scatter"),
    "reduce_scatter_tensor_coalesced": functional("reduce_scatter_coalesced"),
    "all_to_all_single": functional("all_to_all"), "all_to_all_single_autograd": functional("all_to_all"),
}
# Other names of the same functions, from torch 2.14 on.
for old, new in (("all_gather_tensor", "all_gather_single"), ("reduce_scatter_tensor", "reduce_scatter_single"),
                 ("all_gather_into_tensor_coalesced", "all_gather_single_coalesced"),
                 ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
                 ("all_gather_tensor_autograd", "all_gather_single_autograd"),
                 ("reduce_scatter_tensor_autograd", "reduce_scatter_single_autograd")):
    FUNCTIONAL[new] = FUNCTIONAL[old]
# What a compiler passes while it traces a program: the collective is not executed.
TRACED_TENSORS = ("FakeTensor", "FunctionalTensor", "Proxy")


def backends_of(c10d, group):
    """{device: backend}, with the device "" where one backend serves all."""
    get_config = getattr(c10d, "get_backend_config", None)
    text = str(get_config(group)) if get_config is not None else str(c10d.get_backend(group))
    pairs = [part.rpartition(":") for part in text.split(",")]
    return {device: backend for device, _, backend in pairs}


def backend_text(backends):
    """"gloo", or "cpu:gloo,cuda:nccl"."""
    names = set(backends.values())
    return names.pop() if len(names) == 1 else ",".join("%s:%s" % pair for pair in sorted(backends.items()))


def return_ends(backend, device):
    """Whether the return of a blocking call means that the operation has ended. NCCL's calls return once the operation
    is queued on the GPU."""
    return backend in ("gloo", "mpi") or (backend == "ucc" and device in ("", "cpu"))


def value_of(names, values, *parameters):
    for parameter in parameters:
        if parameter in names:
            return values[names.index(parameter)]
    return None


def text_of_ranks(ranks):
    return ",".join(map(str, sorted(ranks)))


def new_group_ranks(names, values):
    ranks = value_of(names, values, "ranks")
    return "" if ranks is None else text_of_ranks(ranks)


def split_group_ranks(names, values):
    lists = value_of(names, values, "split_ranks")
    return "" if lists is None else " ".join(map(text_of_ranks, lists))


RANKS_OF = {"new_group": new_group_ranks, "split_group": split_group_ranks}


def all_to_all_sizes(names, values, count, size):
    """What goes to and comes from each rank of the group, in elements; None: as much for each."""
    outputs = value_of(names, values, "output_tensor_list", "output_tensors")
    if outputs is not None:
        inputs = value_of(names, values, "input_tensor_list", "input_tensors")
        return [one.numel() for one in inputs], [one.numel() for one in outputs]
    sent = value_of(names, values, "input_split_sizes", "input_splits")
    received = value_of(names, values, "output_split_sizes", "output_splits")
    if not sent and not received:
        return None
    rows = sum(sent) if sent else size
    element = count // rows if rows else 0
    sent = [rows * element for rows in sent] if sent else [count // size] * size
    output = value_of(names, values, "output")
    if received:
        row = output.numel() // max(sum(received), 1) if output is not None else element
        received = [rows * row for rows in received]
    else:
        received = [(count if output is None else output.numel()) // size] * size
    return sent, received


def all_gather_sizes(names, values, count, size):
    """NCCL also gathers tensors of different sizes. The first and the last tell, as all lists are equal."""
    outputs = value_of(names, values, "tensor_list")
    if not outputs or (outputs[0].numel() == count and outputs[-1].numel() == count):
        return None
    return [count] * size, [one.numel() for one in outputs]


SPLITS_OF = {"all_to_all": all_to_all_sizes, "all_gather": all_gather_sizes}
