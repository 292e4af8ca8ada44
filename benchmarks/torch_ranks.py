#!/usr/bin/env python3
"""The peer of composer's ranks: ResNet-20 for CIFAR-10 under DistributedDataParallel over Gloo, one process a rank, which is
told its place as torchrun does. Rank 0 prints one JSON line.

SGD with Nesterov momentum, channels_last, label smoothing 0.1, one fixed batch in memory, fp32.
"""
import argparse
import json
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

from torch_step import cifar_resnet

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--batch_size', type=int, default=128, help='of a rank')
parser.add_argument('--warmup', type=int, default=10)
parser.add_argument('--steps', type=int, default=30)
args = parser.parse_args()

torch.set_num_threads(1)
torch.distributed.init_process_group('gloo')
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(cifar_resnet(20).to(memory_format=torch.channels_last).train())
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-5, nesterov=True)
images = torch.randn(args.batch_size, 3, 32, 32).to(memory_format=torch.channels_last)
labels = torch.randint(10, (args.batch_size,))
for step in range(args.warmup + args.steps):
    if step == args.warmup:
        begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
    optimizer.step()
torch.distributed.barrier()
if rank == 0:
    rate = args.batch_size * ranks * args.steps / (time.perf_counter() - begin)
    print(json.dumps(dict(peer=f'torch {torch.__version__} DDP gloo', images_per_s=rate)), flush=True)
torch.distributed.barrier()
os._exit(0)  # an orderly end aborts at times: threads of Gloo's that nothing joined
