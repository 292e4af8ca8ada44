#include "algorithms/all.h"

#include "algorithms/blurpool.h"
#include "algorithms/channels_last.h"
#include "algorithms/colout.h"
#include "algorithms/cutmix.h"
#include "algorithms/cutout.h"
#include "algorithms/ema.h"
#include "algorithms/factorize.h"
#include "algorithms/ghost_batchnorm.h"
#include "algorithms/gradient_clipping.h"
#include "algorithms/label_smoothing.h"
#include "algorithms/layer_freezing.h"
#include "algorithms/mixup.h"
#include "algorithms/no_op_model.h"
#include "algorithms/progressive_resizing.h"
#include "algorithms/squeeze_excite.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/swa.h"
#include "algorithms/weight_standardization.h"

namespace composer {

void add_builtin_algorithms(Registry& registry) {
  auto& algorithms = registry.algorithms;
  algorithms.add<BlurPool>("blurpool",
                           "blurs before every downsampling, for shift invariance and accuracy");
  algorithms.add<ChannelsLast>("channels_last",
                               "channels-last memory order, for faster convolutions");
  algorithms.add<ColOut>("colout", "drops random rows and columns of the images");
  algorithms.add<CutMix>("cutmix", "pastes a box of another image into each, labels mixed by area");
  algorithms.add<Cutout>("cutout", "blanks random squares of the images");
  algorithms.add<Ema>("ema", "averages the weights over training, for evaluation");
  algorithms.add<Factorize>("factorize", "splits wide layers into two thin ones of low rank");
  algorithms.add<GhostBatchNorm>("ghost_batchnorm", "normalises pieces of the batch by themselves");
  algorithms.add<GradientClipping>("gradient_clipping",
                                   "bounds the gradients by norm, by value, or by the weights");
  algorithms.add<LabelSmoothing>("label_smoothing",
                                 "spreads a share of each label over all classes");
  algorithms.add<LayerFreezing>("layer_freezing",
                                "stops training the first layers, more of them towards the end");
  algorithms.add<Mixup>("mixup", "blends pairs of images and their labels");
  algorithms.add<NoOpModel>("no_op_model",
                            "trains one number in place of the model, to time the rest");
  algorithms.add<ProgressiveResizing>("progressive_resizing",
                                      "trains on small images first and lets them grow");
  algorithms.add<SqueezeExcite>("squeeze_excite",
                                "weighs channels by gates computed from all of them");
  algorithms.add<StochasticDepth>("stochastic_depth", "leaves out residual branches at random");
  algorithms.add<Swa>("swa", "ends with the average of the weights of the last part of training");
  algorithms.add<WeightStandardization>("weight_standardization",
                                        "convolutions with filters of mean 0 and variance 1");
}

}  // namespace composer
