"""Diffusion models of 0.2 are not offered: importing this raises."""

raise ImportError("pygpukit.diffusion: diffusion models are out of scope of this version; 0.2 has them")
