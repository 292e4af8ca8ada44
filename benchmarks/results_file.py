"""benchmarks/results/<processor>.json: what was measured on one kind of machine.

machine, versions   of the last measurement
rows                name -> command, here and peer (medians), ratio (median of the pairs), spread (least and greatest of
                    them), memory_ratio, repeats, peer_name, date, measured (composer's commit); a key that the script
                    does not report is absent. skipped: why a later measurement left the row as it was.
"""
import json
import os


def path_of(folder, processor):
    return os.path.join(folder, processor + '.json')


def read(path):
    """An empty record where there is no such file."""
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return dict(machine={}, versions={}, rows={})


def write(path, record):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + '.part', 'w') as file:
        json.dump(record, file, indent=1)
        file.write('\n')
    os.replace(path + '.part', path)


def measured(row, printed, date, commit):
    """The entry of a row from the line that its script printed."""
    found = {key: printed[name] for key, name in row.figures.items()}
    return dict(command=row.command, **found, repeats=printed['pairs'], peer_name=printed.get('peer'), date=date,
                measured=commit)
