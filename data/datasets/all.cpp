#include "data/datasets/all.h"

#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/mds.h"
#include "data/datasets/mnist.h"
#include "data/datasets/shapes.h"
#include "data/datasets/synthetic.h"
#include "data/datasets/webdataset.h"

namespace composer {

void add_builtin_datasets(Registry& registry) {
  auto& sets = registry.datasets;
  sets.add<Cifar10Dataset>("cifar10", "CIFAR-10's 32 x 32 photographs from its binary files");
  sets.add<ImageFolderDataset>("image_folder", "image files, each class in a folder of its own");
  sets.add<ImageListDataset>("image_list", "image files that a list names: .csv, .tsv or .jsonl");
  sets.add<ImagenetDataset>("imagenet", "ImageNet-1k from its class folders");
  sets.add<MdsDataset>("mds", "photographs in MosaicML's shards (MDS)");
  sets.add<MnistDataset>("mnist", "MNIST's 28 x 28 handwritten digits from its idx files");
  sets.add<ShapesDataset>("shapes", "drawn shapes in ten classes; needs no files");
  sets.add<SyntheticDataset>("synthetic", "images of noise, for measuring");
  sets.add<WebDataset>("webdataset", "photographs in WebDataset's shards (tar files)");
}

}  // namespace composer
