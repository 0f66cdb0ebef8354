from tests.hosts.gpu.fixtures import gpus, whole_gpu_machine

__all__ = ["gpus", "whole_gpu_machine"]
