#include "algorithms/all.h"

#include "algorithms/activation_checkpointing.h"
#include "algorithms/alternating_flip.h"
#include "algorithms/augmix.h"
#include "algorithms/autoaugment.h"
#include "algorithms/bias_lr_scale.h"
#include "algorithms/blurpool.h"
#include "algorithms/channels_last.h"
#include "algorithms/colout.h"
#include "algorithms/cutmix.h"
#include "algorithms/cutout.h"
#include "algorithms/dirac_init.h"
#include "algorithms/dropout.h"
#include "algorithms/ema.h"
#include "algorithms/factorize.h"
#include "algorithms/ghost_batchnorm.h"
#include "algorithms/gradient_clipping.h"
#include "algorithms/gradual_unfreezing.h"
#include "algorithms/label_smoothing.h"
#include "algorithms/layer_freezing.h"
#include "algorithms/lookahead.h"
#include "algorithms/low_precision_norm.h"
#include "algorithms/mixup.h"
#include "algorithms/no_op_model.h"
#include "algorithms/progressive_batch_size.h"
#include "algorithms/progressive_resizing.h"
#include "algorithms/quantization_aware.h"
#include "algorithms/randaugment.h"
#include "algorithms/random_erasing.h"
#include "algorithms/sam.h"
#include "algorithms/selective_backprop.h"
#include "algorithms/squeeze_excite.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/swa.h"
#include "algorithms/sync_batchnorm.h"
#include "algorithms/test_time_augmentation.h"
#include "algorithms/trivialaugment.h"
#include "algorithms/weight_standardization.h"
#include "algorithms/whitening.h"

namespace composer {

void add_builtin_algorithms(Registry& registry) {
  auto& algorithms = registry.algorithms;
  algorithms.add<ActivationCheckpointing>("activation_checkpointing",
                                          "keeps fewer activations and computes the others again");
  algorithms.add<AlternatingFlip>("alternating_flip", "mirrors each image in every second epoch");
  algorithms.add<AugMix>("augmix", "averages each image with randomly changed versions of itself");
  algorithms.add<AutoAugment>("autoaugment",
                              "changes each image by pairs of operations found by a search");
  algorithms.add<BiasLrScale>("bias_lr_scale",
                              "a larger learning rate for the biases of normalisation layers");
  algorithms.add<BlurPool>("blurpool",
                           "blurs before every downsampling, for shift invariance and accuracy");
  algorithms.add<ChannelsLast>("channels_last",
                               "channels-last memory order, for faster convolutions");
  algorithms.add<ColOut>("colout", "drops random rows and columns of the images");
  algorithms.add<CutMix>("cutmix", "pastes a box of another image into each, labels mixed by area");
  algorithms.add<Cutout>("cutout", "blanks random squares of the images");
  algorithms.add<DiracInit>("dirac_init", "convolutions start by handing their input on");
  algorithms.add<Dropout>("dropout", "drops features in front of the linear head at random");
  algorithms.add<Ema>("ema", "averages the weights over training, for evaluation");
  algorithms.add<Factorize>("factorize", "splits wide layers into two thin ones of low rank");
  algorithms.add<GhostBatchNorm>("ghost_batchnorm", "normalises pieces of the batch by themselves");
  algorithms.add<GradientClipping>("gradient_clipping",
                                   "bounds the gradients by norm, by value, or by the weights");
  algorithms.add<GradualUnfreezing>("gradual_unfreezing",
                                    "trains the last layer first, and block after block with it");
  algorithms.add<LabelSmoothing>("label_smoothing",
                                 "spreads a share of each label over all classes");
  algorithms.add<LayerFreezing>("layer_freezing",
                                "stops training the first layers, more of them towards the end");
  algorithms.add<Lookahead>("lookahead",
                            "slow weights follow the network and set it back, every few steps");
  algorithms.add<LowPrecisionNorm>(
      "low_precision_norm", "layer and group normalisation in 16 bits under mixed precision");
  algorithms.add<Mixup>("mixup", "blends pairs of images and their labels");
  algorithms.add<NoOpModel>("no_op_model",
                            "trains one number in place of the model, to time the rest");
  algorithms.add<ProgressiveBatchSize>("progressive_batch_size",
                                       "many small updates first, few large ones later");
  algorithms.add<ProgressiveResizing>("progressive_resizing",
                                      "trains on small images first and lets them grow");
  algorithms.add<QuantizationAware>("quantization_aware",
                                    "trains on the numbers that 8 bits will leave of the network");
  algorithms.add<RandAugment>("randaugment",
                              "changes each image by a few randomly drawn operations");
  algorithms.add<RandomErasing>("random_erasing", "hides a random rectangle of some images");
  algorithms.add<Sam>("sam", "steps by the gradients at the worst point near the weights");
  algorithms.add<SelectiveBackprop>("selective_backprop",
                                    "leaves out samples whose loss is small already");
  algorithms.add<SqueezeExcite>("squeeze_excite",
                                "weighs channels by gates computed from all of them");
  algorithms.add<StochasticDepth>("stochastic_depth", "leaves out residual branches at random");
  algorithms.add<Swa>("swa", "ends with the average of the weights of the last part of training");
  algorithms.add<SyncBatchNorm>("sync_batchnorm", "batch normalisation by the batch of all ranks");
  algorithms.add<TestTimeAugmentation>("test_time_augmentation",
                                       "evaluates the mean over mirrored and shifted views");
  algorithms.add<TrivialAugment>("trivialaugment",
                                 "changes each image by one operation of any strength");
  algorithms.add<WeightStandardization>("weight_standardization",
                                        "convolutions with filters of mean 0 and variance 1");
  algorithms.add<Whitening>("whitening", "computes the first convolution from the data");
}

}  // namespace composer
