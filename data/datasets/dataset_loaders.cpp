#include "base/remote/remote_path.h"
#include "data/beton/source.h"
#include "data/datasets/dataset_params.h"
#include "data/samples/remote_files.h"

namespace composer {
namespace {

/// A .beton file whose samples have their indices as classes.
class NumberedBeton final : public BetonSource {
 public:
  NumberedBeton(const std::string& path, int64_t channels, const RemoteOptions& remote)
      : BetonSource(std::make_unique<const BetonFile>(path, remote), channels, {},
                    Unlabelled::take) {}
  int64_t label(int64_t index) const override { return index; }
};

}  // namespace

std::unique_ptr<Loader> open_loader(std::shared_ptr<Source> source, Transform transform,
                                    const TransformParams& transforms, Normalization normalization,
                                    const DatasetParams& params, const LoaderOptions& options) {
  auto loader = image_loader_options(*source, std::move(transform), transforms,
                                     std::move(normalization), params, options);
  return make_image_loader(std::move(source), std::move(loader), options);
}

std::unique_ptr<Loader> open_file_loader(const std::vector<std::string>& files,
                                         const Preparation& preparation,
                                         const LoaderOptions& options,
                                         const RemoteOptions& remote) {
  std::shared_ptr<Source> source;
  if (files.size() == 1 && is_beton(files[0]))
    source = std::make_shared<NumberedBeton>(files[0], preparation.channels, remote);
  else if (is_remote(files.at(0)))
    source = open_remote_files(files, preparation.channels, remote);
  else if (options.on_bad_sample != OnBadSample::error)  // missing files are bad samples
    source = std::make_shared<FileSource>(table_of_files(files), "", preparation.channels);
  else
    source = open_image_files(files, preparation.channels);
  return open_prepared_loader(std::move(source), preparation, {}, options);
}

std::unique_ptr<Loader> open_prepared_loader(std::shared_ptr<Source> source,
                                             const Preparation& preparation, std::string rows,
                                             const LoaderOptions& options) {
  Transform transform{.kind = Transform::Kind::center_crop,
                      .resize_size = preparation.resize_size,
                      .size = preparation.size};
  set_pixels(transform, options, false);
  LoaderOptions whole = options;
  whole.split.reset();
  return make_image_loader(std::move(source),
                           {.transform = std::move(transform),
                            .normalization = preparation.normalization,
                            .rows = std::move(rows)},
                           whole);
}

}  // namespace composer
