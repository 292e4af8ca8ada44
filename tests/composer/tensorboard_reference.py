"""What TensorBoard's own reader finds in a folder: a line "tag step value" for each scalar.

With the word "logged", fails where the recipe, the hyperparameters or histograms of the test of
that name are not what TensorBoard's plugins read.
"""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
events.Reload()
for tag in events.Tags()["scalars"]:
    for point in events.Scalars(tag):
        print(tag, point.step, f"{point.value:.9g}")

if sys.argv[2:] != ["logged"]:
    sys.exit()
recipe = events.Tensors("recipe/text_summary")[0].tensor_proto
assert b"sgd" in recipe.string_val[0]
assert events.SummaryMetadata("recipe/text_summary").plugin_data.plugin_name == "text"


def hparams(tag):
    content = events.SummaryMetadata(f"_hparams_/{tag}").plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


start = hparams("session_start_info").session_start_info
assert start.hparams["optimizer.sgd.lr"].number_value == 0.1
assert start.hparams["optimizer.sgd.nesterov"].bool_value is False
assert start.hparams["algorithms"].string_value == "[ema, blurpool]", start.hparams["algorithms"]
assert hparams("session_end_info").session_end_info.status == 1

weights = events.Histograms("weights/conv.weight")
assert [histogram.step for histogram in weights] == [4, 8, 12]
for histogram in weights:
    value = histogram.histogram_value
    assert value.num == 108 and sum(value.bucket) == 108
    assert len(value.bucket_limit) == len(value.bucket) == 30
    assert value.min < value.bucket_limit[0] and value.bucket_limit[-1] == value.max
