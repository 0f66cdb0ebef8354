from tests.hosts.gpu.fixtures import frozen_disk, gpus, whole_gpu_machine

__all__ = ["frozen_disk", "gpus", "whole_gpu_machine"]
