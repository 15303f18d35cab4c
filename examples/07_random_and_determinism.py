"""Same inputs, same bits: random numbers, sums, threads and devices."""

import hashlib

import pygpukit as gp


def digest(array: gp.GPUArray) -> str:
    return hashlib.sha256(array.to_numpy().tobytes()).hexdigest()[:16]


# The value at an index depends on seed, offset and index alone: the same bits on the CPU and on every GPU.
print("normal:", digest(gp.random.normal((100003,), seed=7)))
print("uniform:", digest(gp.random.uniform((100003,), seed=7, dtype="float64")))
print("randint:", gp.random.randint(0, 100, (8,), seed=7).tolist())

# Without seed= each draw moves the state of a generator on; the state can be kept and put back.
generator = gp.random.Generator(seed=1)
first, second = generator.uniform((4,)), generator.uniform((4,))
print("draws differ:", digest(first) != digest(second))
generator.set_state((1, 0))
print("put back:", digest(generator.uniform((4,))) == digest(first))

# The order of every sum is a function of shape and dtype alone.
x = gp.random.normal((257, 1031), seed=3)
sums = {digest(gp.sum(x)) for _ in range(20)}
print("one hash of 20 sums:", len(sums) == 1)
gp.set_num_threads(1)
print("threads change nothing:", digest(gp.sum(x)) in sums)
gp.set_num_threads(0)

# A row's result does not depend on the rows beside it.
soft = gp.softmax(x)
print("batch invariant:", digest(soft[5]) == digest(gp.softmax(x[5:6])[0]))
