"""What machine a measurement was made on, as far as it can be found out."""
import json
import os
import platform
import re
import subprocess

torch_facts = '''
import json, torch
cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None
print(json.dumps(dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=cudnn,
                      gpus=[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])))
'''


def describe_machine():
    """Processor, cores of this process, vector instructions, memory, system, and each GPU's name, driver and memory."""
    return dict(processor=field_of('/proc/cpuinfo', 'model name'), cores=len(os.sched_getaffinity(0)),
                instruction_sets=instruction_sets(), memory=field_of('/proc/meminfo', 'MemTotal'), system=system_name(), kernel=platform.release(),
                gpus=gpus())


def describe_software(python):
    """Versions of Python, torch, CUDA and cuDNN, and the GPUs that torch sees; an error in their place where torch cannot be imported."""
    done = subprocess.run([python, '-c', torch_facts], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    facts = json.loads(done.stdout) if done.returncode == 0 else dict(error=done.stderr.strip()[-500:])
    return dict(python=platform.python_version(), **facts)


def field_of(path, key, separator=':'):
    try:
        with open(path) as file:
            lines = (line.partition(separator) for line in file)
            return next((value.strip().strip('"') for name, _, value in lines if name.strip() == key), None)
    except OSError:
        return None


def instruction_sets():
    """Of what the processor reports, what speed depends on; and the variable that lowers what LibTorch uses of it."""
    flags = (field_of('/proc/cpuinfo', 'flags') or field_of('/proc/cpuinfo', 'Features') or '').split()
    known = ['sse4_2', 'avx', 'avx2', 'fma', 'avx512f', 'avx512bw', 'avx512_vnni', 'avx512_bf16', 'avx512_fp16', 'amx_bf16',
             'amx_int8', 'asimd', 'asimddp', 'sve', 'bf16', 'i8mm']
    limit = os.environ.get('ATEN_CPU_CAPABILITY')
    return [flag for flag in known if flag in flags] + (['limited to ' + limit] if limit else [])


def slug(machine):
    """A name for files: the processor's, without its maker, and the number of cores."""
    name = re.sub(r'\(r\)|\(tm\)|\b(cpu|processor|intel|amd)\b|@.*', ' ', (machine['processor'] or 'unknown').lower())
    words = re.findall('[a-z0-9]+', name)
    if not any(character.isdigit() for character in name):  # a hypervisor hides which
        words += [field_of('/proc/cpuinfo', key) or '' for key in ('cpu family', 'model')]
    limit = os.environ.get('ATEN_CPU_CAPABILITY')
    return '_'.join(filter(None, words + [str(machine['cores']), 'cores' if machine['cores'] > 1 else 'core', limit]))


def system_name():
    return field_of('/etc/os-release', 'PRETTY_NAME', '=')


def gpus():
    keys = ['name', 'driver_version', 'memory.total', 'compute_cap']
    try:
        done = subprocess.run(['nvidia-smi', '--query-gpu=' + ','.join(keys), '--format=csv,noheader'],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return []
    return [dict(zip(keys, (word.strip() for word in line.split(',')))) for line in done.stdout.splitlines()]
