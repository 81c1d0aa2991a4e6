"""Ordinary training loops, one process a rank, that become slow: slow_loops_job.py KIND CAUSE EVERY SINCE STEPS DIR.

KIND: ddp (eight linear layers), fsdp, compile (the same by torch.compile), accumulate (four micro-batches a step), gan
(two networks and optimizers), graph (forward and backward pass in a CUDA graph, gradients reduced by hand), whole (the
whole step in one CUDA graph), inference (no gradients and no optimizer; the outputs are gathered), streams
(the next batch is made on a stream of its own), loader (a DataLoader with a worker, whose samples have the causes of
the host), sends (ddp whose ranks also send each other their losses), lightning (starts its second rank itself),
pipeline (two stages of eight layers, four micro-batches), batched (the same by batch_isend_irecv), trainer (of
transformers; its collate function tokenises), jax (one jitted step, the batch sharded over both processes; its own
durations are of the host, over EVERY steps).
CAUSE is what rank 1 (CAUSE@0: rank 0) does from step SINCE on (spell: for 60 steps only; nth: 45 ms more in every
eighth step; stop: it sleeps for an hour). The loss is read every EVERY steps. DIR gets `steps-RANK.json`: the durations
of the steps in ms, by CUDA events, and the mean of the host's clock.
"""

import gc
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

KIND, CAUSE, EVERY, SINCE, STEPS, DIR = sys.argv[1:7]
CAUSE, _, SLOW = CAUSE.partition("@")
SLOW = int(SLOW or 1)
EVERY, SINCE, STEPS, DIR = int(EVERY), int(SINCE), int(STEPS), pathlib.Path(DIR)
WIDTH, ROWS, LAYERS = 4096, 2048, 8
WORDS = "the quick brown fox jumps over the lazy dog and runs into the deep dark wood".split()
NEIGHBOUR = f"""import time, torch
torch.cuda.set_device({SLOW})
a = torch.randn(6144, 6144, device="cuda")
end = time.time() + 600
while time.time() < end:
    for _ in range(4):
        a @ a
    torch.cuda.synchronize()
"""


def busy(seconds, work):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        work()


def tokenise():
    return [sum(map(ord, word)) % 50000 for word in WORDS]


class Cause:
    """What the rank does beside its training."""

    def __init__(self, rank):
        self.rank = rank
        self.neighbour = None
        self.lock = threading.Lock()

    def is_on(self, step):
        until = SINCE + 60 if CAUSE == "spell" else 1 << 40
        return self.rank == SLOW and SINCE <= step < until and (CAUSE != "nth" or step % 8 == 7)

    def rows(self, step):
        if CAUSE == "wandering":
            return ROWS + (ROWS // 8 if (step // 7) % 2 == self.rank else 0)
        return 2 * ROWS if CAUSE in ("batch", "spell") and self.is_on(step) else ROWS

    def before(self, step):
        if not self.is_on(step):
            return
        if CAUSE in ("tokenise", "nth"):
            busy(0.045, tokenise)
        elif CAUSE == "input":
            time.sleep(0.040)
        elif CAUSE == "stop":
            time.sleep(3600)
        elif CAUSE == "lock":
            self.wait_for_lock()
        elif CAUSE == "gpu" and self.neighbour is None:
            environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "LD_PRELOAD")}
            self.neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], env=environment)

    def wait_for_lock(self):
        with self.lock:
            threading.Thread(target=self.hold).start()
            time.sleep(0.001)
        with self.lock:
            pass

    def hold(self):
        with self.lock:
            time.sleep(0.035)

    def after(self, step, tensor):
        if not self.is_on(step):
            return
        if CAUSE == "copies":
            tensor.to("cpu")  # 256 MB
        elif CAUSE == "items":
            for i in range(60):
                tensor[i:].sum().item()
        elif CAUSE == "logging":
            with open(DIR / "log.txt", "a") as log:
                for i in range(400):
                    log.write(f"{step} {i} {time.time()}\n")
                    log.flush()
                    os.fsync(log.fileno()) if i % 100 == 0 else None
            time.sleep(0.02)
        elif CAUSE == "garbage":
            gc.collect()
            busy(0.02, tokenise)

    def end(self):
        if self.neighbour:
            self.neighbour.kill()


class Clock:
    """The program's own measurement."""

    def __init__(self, rank):
        self.rank, self.marks, self.began = rank, [], time.perf_counter()

    def step(self):
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        self.marks.append(mark)

    def write(self):
        torch.cuda.synchronize()
        took = time.perf_counter() - self.began
        steps = [a.elapsed_time(b) for a, b in zip(self.marks, self.marks[1:])]
        (DIR / f"steps-{self.rank}.json").write_text(json.dumps(
            {"steps_ms": [round(s, 3) for s in steps], "host_ms": 1e3 * took / len(self.marks)}))


def network():
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def start():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    return rank, Cause(rank), Clock(rank)


def finish(cause, clock):
    clock.write()
    cause.end()
    dist.barrier()
    dist.destroy_process_group()


class Samples(torch.utils.data.Dataset):
    """One sample is a batch; the worker does what the cause says."""

    def __init__(self, cause):
        self.cause = cause

    def __len__(self):
        return STEPS

    def __getitem__(self, step):
        self.cause.before(step)
        return torch.randn(256, WIDTH)


def batches(cause):
    """By step; on the GPU."""
    if KIND == "loader":
        loader = torch.utils.data.DataLoader(Samples(cause), batch_size=None, num_workers=1, prefetch_factor=2)
        for rows in loader:
            yield rows.to("cuda", non_blocking=True).repeat(ROWS // 256, 1)
        return
    side = torch.cuda.Stream() if KIND == "streams" else None
    following = None
    for step in range(STEPS):
        cause.before(step)
        if side is None:
            yield torch.randn(cause.rows(step), WIDTH, device="cuda")
            continue
        batch = following if following is not None else torch.randn(cause.rows(step), WIDTH, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            following = torch.randn(cause.rows(step + 1), WIDTH).to("cuda", non_blocking=True) if step % 50 == 49 \
                else torch.randn(cause.rows(step + 1), WIDTH, device="cuda")
        yield batch


def gan():
    rank, cause, clock = start()
    ddp = nn.parallel.DistributedDataParallel
    maker = ddp(nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)]).cuda())
    judge = ddp(nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)]).cuda())
    of_maker, of_judge = (torch.optim.Adam(m.parameters(), lr=1e-6) for m in (maker, judge))
    big = torch.randn(8192, 8192, device="cuda")
    for step, real in enumerate(batches(cause)):
        of_judge.zero_grad()
        fake = maker(torch.randn_like(real))
        (judge(real).square().mean() + judge(fake.detach()).square().mean()).backward()
        of_judge.step()
        of_maker.zero_grad()
        loss = judge(fake).square().mean()
        loss.backward()
        of_maker.step()
        cause.after(step, big)
        if step % EVERY == EVERY - 1:
            float(loss)
        clock.step()
    finish(cause, clock)


def graph():
    rank, cause, clock = start()
    model = network().cuda()
    flat = torch.zeros(sum(p.numel() for p in model.parameters()), device="cuda")
    at = 0
    for p in model.parameters():
        p.grad = flat[at:at + p.numel()].view_as(p)
        at += p.numel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.randn(ROWS, WIDTH, device="cuda")

    def passes():
        flat.zero_()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            passes()
    torch.cuda.current_stream().wait_stream(side)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        loss = passes()
    big = torch.randn(8192, 8192, device="cuda")
    for step in range(STEPS):
        cause.before(step)
        for _ in range(cause.rows(step) // ROWS):
            recorded.replay()
        dist.all_reduce(flat)
        optimizer.step()
        cause.after(step, big)
        if step % EVERY == EVERY - 1:
            float(loss)
        clock.step()
    finish(cause, clock)


def whole():
    """The step of the optimizer is in the graph too, so Python sees replays only."""
    rank, cause, clock = start()
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.randn(ROWS, WIDTH, device="cuda")

    def step_of_graph():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
        return loss.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step_of_graph()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        loss = step_of_graph()
    for step in range(STEPS):
        cause.before(step)
        x.copy_(torch.randn(ROWS, WIDTH, device="cuda"))
        recorded.replay()
        if step % EVERY == EVERY - 1:
            float(loss)
        clock.step()
    torch.cuda.synchronize()
    recorded.reset()  # NCCL waits for the graphs that hold its collectives
    finish(cause, clock)


def inference():
    rank, cause, clock = start()
    model = network().cuda()
    big = torch.randn(8192, 8192, device="cuda")
    with torch.no_grad():
        for step, x in enumerate(batches(cause)):
            y = model(x)[:ROWS, :64].contiguous()
            outputs = [torch.empty_like(y) for _ in range(2)]
            dist.all_gather(outputs, y)
            mean = y.mean()
            dist.all_reduce(mean)
            cause.after(step, big)
            if step % EVERY == EVERY - 1:
                float(mean)
            clock.step()
    finish(cause, clock)


def loop():
    rank, cause, clock = start()
    model = network().cuda()
    if KIND == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(torch.compile(model) if KIND == "compile" else model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    big = torch.randn(8192, 8192, device="cuda")  # 256 MB
    for step, x in enumerate(batches(cause)):
        parts = x.chunk(4) if KIND == "accumulate" else [x]
        for part in parts[:-1]:
            with model.no_sync():
                model(part).square().mean().backward()
        loss = model(parts[-1]).square().mean()
        loss.backward()
        optimizer.step()
        if KIND == "sends":
            tell_losses(rank, loss)
        optimizer.zero_grad()
        cause.after(step, big)
        if step % EVERY == EVERY - 1:
            float(loss)
        if CAUSE == "evaluation" and step % 50 == 49:
            with torch.no_grad():
                for _ in range(20):
                    model(x).sum().item()
        clock.step()
    finish(cause, clock)


def tell_losses(rank, loss):
    mine, other = loss.detach().clone(), torch.empty_like(loss)
    if rank == 0:
        dist.send(mine, 1)
        dist.recv(other, 1)
    else:
        dist.recv(other, 0)
        dist.send(mine, 0)


def exchange(operation, tensors, peer):
    if KIND == "batched":
        for work in dist.batch_isend_irecv([dist.P2POp(operation, one, peer) for one in tensors]):
            work.wait()
        return
    for one in tensors:
        operation(one, peer).wait()


def pipeline():
    rank, cause, clock = start()
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    big = torch.randn(8192, 8192, device="cuda")
    parts = 4
    for step in range(STEPS):
        cause.before(step)
        for _ in range(cause.rows(step) // ROWS - 1):
            with torch.no_grad():
                model(torch.randn(4 * ROWS, WIDTH, device="cuda"))
        inputs = [torch.randn(ROWS // parts, WIDTH, device="cuda") for _ in range(parts)]
        if rank == 0:
            outputs = [model(x) for x in inputs]
            exchange(dist.isend, [y.detach() for y in outputs], 1)
            gradients = [torch.empty_like(y) for y in outputs]
            if KIND == "batched":
                exchange(dist.irecv, gradients, 1)
            for y, gradient in zip(outputs, gradients):
                if KIND != "batched":
                    dist.recv(gradient, 1)
                y.backward(gradient)
        else:
            exchange(dist.irecv, inputs, 0)
            for x in inputs:
                x.requires_grad_()
            for x in inputs:
                loss = model(x).square().mean()
                loss.backward()
            exchange(dist.isend, [x.grad for x in inputs], 0)
        optimizer.step()
        optimizer.zero_grad()
        cause.after(step, big)
        if step % EVERY == EVERY - 1:
            torch.cuda.synchronize() if rank == 0 else float(loss)
        clock.step()
    finish(cause, clock)


def trainer():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    rank = int(os.environ["RANK"])
    cause, clock = Cause(rank), Clock(rank)
    at = [0]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x):
            x = x.repeat(cause.rows(at[0]) // ROWS, 1)
            return {"loss": self.net(x).square().mean()}

    class Watch(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            at[0] = state.global_step

        def on_step_end(self, args, state, control, **kwargs):
            clock.step()

    def collate(rows):
        cause.before(at[0])
        return {"x": torch.randn(len(rows), WIDTH)}

    args = TrainingArguments(str(DIR / "trainer"), max_steps=STEPS, per_device_train_batch_size=ROWS, report_to=[],
                             logging_steps=EVERY, save_strategy="no", disable_tqdm=True, optim="sgd",
                             lr_scheduler_type="constant", learning_rate=1e-6, remove_unused_columns=False)
    Trainer(Net(), args, data_collator=collate, train_dataset=list(range(ROWS * 2 * STEPS)),
            callbacks=[Watch()]).train()
    clock.write()
    cause.end()


def jax_steps():
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4")
    import jax
    import jax.numpy as jnp
    import numpy as np

    rank = int(os.environ["RANK"])
    port = int(os.environ["MASTER_PORT"]) + 1000
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank, local_device_ids=[rank])
    cause = Cause(rank)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    same = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    weights = [jax.device_put(np.full((WIDTH, WIDTH), 1e-4, np.float32), same) for _ in range(LAYERS)]

    def loss_of(weights, x):
        for w in weights:
            x = x @ w
        return jnp.mean(x * x)

    @jax.jit
    def train(weights, x):
        loss, gradients = jax.value_and_grad(loss_of)(weights, x)
        return [w - 1e-6 * g for w, g in zip(weights, gradients)], loss

    mine = np.random.rand(256, WIDTH).astype(np.float32)
    began, durations, mark = time.perf_counter(), [], time.perf_counter()
    for step in range(STEPS):
        cause.before(step)
        x = jax.make_array_from_process_local_data(rows, np.tile(mine, (ROWS // 256, 1)))
        weights, loss = train(weights, x)
        if step % EVERY == EVERY - 1:
            float(loss)
            now = time.perf_counter()
            durations += [1e3 * (now - mark) / EVERY] * EVERY
            mark = now
    (DIR / f"steps-{rank}.json").write_text(json.dumps(
        {"steps_ms": durations, "host_ms": 1e3 * (time.perf_counter() - began) / STEPS}))
    cause.end()
    jax.distributed.shutdown()


def lightning():
    import lightning as L

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def on_train_start(self):
            self.cause, self.clock = Cause(self.global_rank), Clock(self.global_rank)

        def training_step(self, batch, number):
            self.cause.before(number)
            return self.net(torch.randn(self.cause.rows(number), WIDTH, device=self.device)).square().mean()

        def on_train_batch_end(self, outputs, batch, number):
            if number % EVERY == EVERY - 1:
                float(outputs["loss"])
            self.clock.step()

        def on_train_end(self):
            self.clock.write()
            self.cause.end()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    data = torch.utils.data.DataLoader(torch.zeros(2 * STEPS, 1), batch_size=1)
    L.Trainer(max_steps=STEPS, accelerator="gpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
              enable_progress_bar=False, enable_model_summary=False).fit(Net(), data)


if __name__ == "__main__":
    {"lightning": lightning, "pipeline": pipeline, "batched": pipeline, "trainer": trainer, "gan": gan,
     "graph": graph, "whole": whole, "inference": inference, "jax": jax_steps}.get(KIND, loop)()
