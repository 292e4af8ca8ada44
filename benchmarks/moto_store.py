"""A store for remote_same.py: moto, which checks signatures, with a folder's files as objects of the bucket `bucket`.

    VENV/bin/python benchmarks/moto_store.py FOLDER

It prints its URL, a key's id and secret, and serves until its input ends.
"""
import json
import os
import sys

os.environ.setdefault('INITIAL_NO_AUTH_ACTION_COUNT', '1000000000')  # until all is there

import boto3  # noqa: E402
from moto import settings  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
url = 'http://%s:%d' % server.get_host_and_port()


def client(name):
    return boto3.client(name, endpoint_url=url, region_name='us-east-1', aws_access_key_id='a', aws_secret_access_key='b')


iam, s3 = client('iam'), client('s3')
iam.create_user(UserName='user')
policy = dict(Version='2012-10-17', Statement=[dict(Effect='Allow', Action='s3:*', Resource='*')])
iam.put_user_policy(UserName='user', PolicyName='all', PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName='user')['AccessKey']
s3.create_bucket(Bucket='bucket')
for place, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(place, name)
        with open(path, 'rb') as file:
            s3.put_object(Bucket='bucket', Key=os.path.relpath(path, sys.argv[1]), Body=file.read())
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
print(url, key['AccessKeyId'], key['SecretAccessKey'], flush=True)
sys.stdin.read()
