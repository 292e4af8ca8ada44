"""benchmarks/quantized_accuracy.py on a few small images, with the program that is given."""
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
script = os.path.join(here, '../../benchmarks/quantized_accuracy.py')


def write_cifar(folder):
    """Files of CIFAR-10's form, whose images are of one brightness for each class."""
    names = [f'data_batch_{i}.bin' for i in range(1, 6)] + ['test_batch.bin']
    for name in names:
        with open(os.path.join(folder, name), 'wb') as file:
            for i in range(60):
                file.write(bytes([i % 10]) + bytes((25 * (i % 10) + p % 20) % 256 for p in range(3 * 32 * 32)))


with tempfile.TemporaryDirectory() as folder:
    write_cifar(folder)
    done = subprocess.run(
        [sys.executable, script, '--composer', sys.argv[1], '--cifar', folder, '--epochs', '1', '--aware_epochs', '1', '--samples', '64',
         '--max_drop', '1'], stdout=subprocess.PIPE, text=True, check=True)
lines = done.stdout.splitlines()
figures = json.loads(lines[-1])
for name in 'resnet20', 'resnet20_max_drop', 'resnet20_quantization_aware':
    result = figures[name]
    for metric in 'Accuracy', 'CrossEntropy':
        assert abs(result['float32'][metric] + result['change'][metric] - result['int8'][metric]) < 1e-3, result
    assert any(line.startswith(name + ': Accuracy') for line in lines), lines
