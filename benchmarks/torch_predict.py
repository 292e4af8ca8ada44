#!/usr/bin/env python3
"""The peer of predict_vs_torch.py: all pictures of a folder through torchvision's ResNet-50 by PyTorch's DataLoader, as its
documentation shows; one JSON line. --loading: without the network.
"""
import argparse
import json
import pathlib
import time

import torch
import torchvision
from PIL import Image
from torchvision import transforms


class Pictures(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = sorted(path for path in pathlib.Path(folder).rglob('*') if path.suffix.lower() in ('.jpg', '.jpeg'))
        self.prepare = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
                                           transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.prepare(Image.open(self.files[index]).convert('RGB'))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--source', required=True)
    parser.add_argument('--batch_size', type=int, default=32)
    parser.add_argument('--num_workers', type=int, default=2)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--loading', action='store_true')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    network = torchvision.models.resnet50().eval().to(memory_format=torch.channels_last)
    begin, count = time.perf_counter(), 0
    with torch.inference_mode():
        for images in torch.utils.data.DataLoader(Pictures(args.source), args.batch_size, num_workers=args.num_workers):
            count += len(images)
            if not args.loading:
                network(images.to(memory_format=torch.channels_last)).softmax(1).topk(5)
    print(json.dumps(dict(peer=f'torch {torch.__version__}', images=count,
                          images_per_s=count / (time.perf_counter() - begin))))
