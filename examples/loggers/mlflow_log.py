"""MLflow as a logger: composer train --loggers command --command.run "python mlflow_log.py".

Copy it and change what you like. Needs `pip install mlflow`; MLFLOW_TRACKING_URI says where to.
"""
import json
import sys

import mlflow


def flat(value, path=""):
    """The keys of nested maps by their dotted paths."""
    if not isinstance(value, dict):
        return {path: value}
    return {key: leaf for name, child in value.items() for key, leaf in flat(child, f"{path}.{name}".strip(".")).items()}


for line in sys.stdin:
    record = json.loads(line)
    event = record.pop("event")
    if event == "start":
        mlflow.set_experiment("composer")
        mlflow.start_run(run_name=record["run_name"])
        params = list(flat(record["recipe"]).items())
        for begin in range(0, len(params), 100):
            mlflow.log_params(dict(params[begin : begin + 100]))
    elif event == "end":
        mlflow.end_run("FINISHED" if record["status"] == "completed" else "FAILED")
    else:
        numbers = {name: value for name, value in record.items() if isinstance(value, (int, float))}
        mlflow.log_metrics(numbers, step=record["batch"])
