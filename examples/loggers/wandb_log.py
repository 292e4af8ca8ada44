"""Weights & Biases as a logger: composer train --loggers command --command.run "python wandb_log.py".

Copy it and change what you like. Needs `pip install wandb` and `wandb login`.
"""
import json
import sys

import wandb

run = None
for line in sys.stdin:
    record = json.loads(line)
    event = record.pop("event")
    if event == "start":
        run = wandb.init(project="composer", id=record["run_name"], resume="allow", config=record["recipe"])
    elif event == "end":
        run.summary["status"] = record["status"]
        run.finish(exit_code=0 if record["status"] == "completed" else 1)
    else:
        run.log(record, step=record["batch"])
