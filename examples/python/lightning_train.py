"""Trains a small network in Lightning: python lightning_train.py DATA [EPOCHS]

DATA has train/ and val/ with a folder for each class; of a folder without val/ and of a .beton file a fifth is evaluated on.
Where checkpoints/last.ckpt is there, the training goes on with the batch after its last.
"""
import os
import sys

import lightning
from composer_loader import Loader
from torch import nn, optim

data, epochs = (sys.argv[1:] + ["3"])[:2]
common = dict(batch_size=32, size=64, output="float32")
common["split"] = None if os.path.isdir(os.path.join(data, "val")) else 0.2
train, val = Loader(data, pipeline="train", **common), Loader(data, pipeline="eval", **common)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, train.num_classes))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, _):  # a sum: a rank's slice of the last batch may be smaller, or empty
        self.log("right", (self.net(batch[0]).argmax(1) == batch[1]).sum().float(), reduce_fx="sum", sync_dist=True)

    def configure_optimizers(self):
        return optim.AdamW(self.parameters(), 2e-3)


checkpoints = lightning.pytorch.callbacks.ModelCheckpoint("checkpoints", every_n_train_steps=10, save_last=True)
trainer = lightning.Trainer(max_epochs=int(epochs), callbacks=[checkpoints], logger=False)
trainer.fit(Model(), train, val, ckpt_path="last")
print(f"accuracy {trainer.callback_metrics['right'].item() / len(val.dataset):.1%}")
