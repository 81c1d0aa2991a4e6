"""The sizes of the jobs, and what the ranks of train.py send."""

# Width, heads, layers of a stage, length of a sequence, sequences of a micro-batch, micro-batches of a step.
SHAPES = {"large": (2048, 16, 4, 1024, 4, 4), "small": (1024, 8, 2, 512, 2, 4), "tiny": (64, 4, 1, 16, 2, 2)}
BYTES = 2  # of a number: bf16
WARM = 2  # steps of a block of turns.py that do not count


def sent_bytes(shape, stages):
    """What a rank sends in a step at least: all-reduces of the tensor pair, and activations or their gradients."""
    width, _, layers, length, sequences, micro_batches = SHAPES[shape]
    activations = width * length * sequences * BYTES
    calls_of_layer = 4  # two forward, two backward; between two ranks each sends as much as it reduces
    return activations * micro_batches * (calls_of_layer * layers + (stages > 1))
