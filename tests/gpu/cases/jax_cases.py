"""JAX programs."""
import jax
import jax.numpy as jnp

from report import check, main, report


def jit():
    check("on_gpu", jax.devices()[0].platform in ("gpu", "cuda"))

    @jax.jit
    def layer(x, w):
        return jnp.tanh(x @ w) + jnp.mean(x, axis=1, keepdims=True)

    x = jnp.linspace(-1, 1, 512 * 256).reshape(512, 256)
    w = jnp.cos(jnp.arange(256 * 256.0)).reshape(256, 256) / 16
    report("layer", layer(x, w))
    report("half", layer(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)).astype(jnp.float32))
    report("scan", jax.lax.scan(lambda c, v: (c * 0.9 + v, c), jnp.zeros(256), x)[0])
    report("while", jax.lax.while_loop(lambda v: v.sum() < 1e6, lambda v: v * 1.5 + 1, jnp.ones(9)))
    report("sort", jnp.sort(jnp.sin(jnp.arange(10000.0))))
    report("fft", jnp.abs(jnp.fft.fft(x[0])))
    image = jnp.sin(jnp.arange(2 * 32 * 32 * 8.0)).reshape(2, 32, 32, 8)
    kernel = jnp.cos(jnp.arange(3 * 3 * 8 * 16.0)).reshape(3, 3, 8, 16)
    report("conv", jax.lax.conv_general_dilated(
        image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), rtol=1e-4)


def grad():
    def loss(w, x):
        return jnp.mean(jnp.square(jnp.tanh(x @ w[0]) @ w[1] - 1))

    x = jnp.sin(jnp.arange(128 * 32.0)).reshape(128, 32)
    w = (jnp.cos(jnp.arange(32 * 64.0)).reshape(32, 64), jnp.sin(jnp.arange(64.0)).reshape(64, 1))
    step = jax.jit(lambda w: jax.tree.map(lambda a, g: a - 0.002 * g, w, jax.grad(loss)(w, x)))
    for _ in range(50):
        w = step(w)
    report("weights", w[0], rtol=1e-5)
    report("loss", loss(w, x), rtol=1e-5)
    report("hessian", jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v**2))(x[0]), rtol=1e-5)
    report("vmap", jax.vmap(jax.grad(lambda v: jnp.prod(v)))(x[:, :4]), rtol=1e-5)


def pmap():
    x = jnp.arange(1000.0).reshape(1, 1000)
    report("mapped", jax.pmap(lambda v: v * 2 + jax.lax.psum(v, "i"), axis_name="i")(x))
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("x",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))
    report("sharded", jax.jit(jnp.sin)(jax.device_put(x, spec)))


def random():
    key = jax.random.key(3)
    a, b, c = jax.random.split(key, 3)
    report("normal", jax.random.normal(a, (1000,)))
    report("uniform", jax.random.uniform(b, (10, 100)))
    report("integers", jax.random.randint(c, (1000,), 0, 1000))
    report("permutation", jax.random.permutation(a, 1000))


def linalg():
    a = jnp.cos(jnp.arange(40000.0)).reshape(200, 200) + 20 * jnp.eye(200)
    report("solve", jnp.linalg.solve(a, a[:, :3]), rtol=1e-5)
    report("cholesky", jnp.linalg.cholesky(a @ a.T), rtol=1e-5)
    report("svd", jnp.linalg.svd(a)[1], rtol=1e-5)
    report("eigh", jnp.linalg.eigvalsh(a @ a.T), rtol=1e-5)
    report("qr", jnp.abs(jnp.linalg.qr(a)[1]), rtol=1e-4)
    report("inverse", jnp.linalg.inv(a), rtol=1e-5)


def two_gpus():
    if len(jax.devices()) < 2:
        from report import skip
        skip("JAX sees one GPU")
    x = jnp.arange(2000.0).reshape(2, 1000)
    report("sum", jax.pmap(lambda v: jax.lax.psum(v, "i"), axis_name="i")(x))


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
