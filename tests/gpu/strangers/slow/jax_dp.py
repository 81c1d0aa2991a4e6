"""Data parallel in JAX, two processes with one GPU each."""

import os

import jax

rank = int(os.environ["RANK"])
jax.distributed.initialize(
    "127.0.0.1:" + os.environ["MASTER_PORT"],
    num_processes=2,
    process_id=rank,
    local_device_ids=[rank] if not os.environ.get("JAX_PLATFORMS") == "cpu" else None,
)
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pace import Pace

gpu = jax.default_backend() == "gpu"
D, B, L = (4096, 4096, 6) if gpu else (64, 16, 2)
mesh = Mesh(np.array(jax.devices()), ("data",))
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


def loss_fn(params, x, y):
    h = x
    for w in params:
        h = jax.nn.gelu(h @ w)
    return jnp.mean((h - y) ** 2).astype(jnp.float32)


@jax.jit
def update(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return [p - 1e-3 * g for p, g in zip(params, grads)], loss


def augment(batch, n):
    flips = 0
    for i in range(n):
        flips += (i * 2654435761) % 7 == 0
    batch[0, 0] = flips
    return batch


def main():
    rng = np.random.default_rng(0)
    init = rng.standard_normal((D, D), dtype=np.float32) / np.sqrt(D)
    params = [jax.device_put(jnp.asarray(init, jnp.bfloat16), whole) for _ in range(L)]
    host = np.random.default_rng(rank).standard_normal((B // 2, D), dtype=np.float32)
    pace = Pace(cuda=False, rank=rank, skip=20)
    while pace.running():
        batch = augment(host, 300_000 if (rank == 1 and pace.late()) else 20_000)
        x = jax.make_array_from_process_local_data(rows, batch.astype(jnp.bfloat16))
        params, loss = update(params, x, x)
        if pace.step % 10 == 0:
            value = float(loss)
            if rank == 0 and pace.step % 100 == 0:
                print("step", pace.step, "loss", value, flush=True)
    pace.close()
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
