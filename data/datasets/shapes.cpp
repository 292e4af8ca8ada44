#include "data/datasets/shapes.h"

#include <unistd.h>

#include <numbers>

#include "base/error.h"
#include "base/random.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/jpeg/jpeg.h"

namespace composer {
namespace {

struct Point {
  double x, y;
};

namespace fs = std::filesystem;

constexpr int64_t kClasses = 10;
constexpr int kJpegQuality = 90;
constexpr int kDrawing = 1;  // version of the drawing, in the name of the file

// Each function tells whether a point lies in the shape, which fills about the circle of radius 1.
// y points down.
bool in_circle(Point p) { return p.x * p.x + p.y * p.y < 0.85; }
bool in_square(Point p) { return std::max(std::abs(p.x), std::abs(p.y)) < 0.8; }
bool in_triangle(Point p) { return p.y < 0.75 && p.y > std::abs(p.x) * 1.8 - 0.95; }
bool in_ring(Point p) {
  const double r = std::hypot(p.x, p.y);
  return r > 0.5 && r < 1.0;
}
bool in_plus(Point p) {
  return std::min(std::abs(p.x), std::abs(p.y)) < 0.28 &&
         std::max(std::abs(p.x), std::abs(p.y)) < 0.95;
}
bool in_cross(Point p) {
  const double half = std::numbers::sqrt2 / 2;
  return in_plus({(p.x - p.y) * half, (p.x + p.y) * half});
}
bool in_star(Point p) {
  const double fifth = 2 * std::numbers::pi / 5;
  const double angle = std::atan2(p.x, -p.y) + 10 * fifth;
  const double off =
      std::abs(std::fmod(angle + fifth / 2, fifth) - fifth / 2);  // from the nearest tip
  return std::hypot(p.x, p.y) < 0.38 / (std::cos(off) * 0.38 + std::sin(off) * 0.95);
}
bool in_moon(Point p) { return std::hypot(p.x, p.y) < 0.95 && std::hypot(p.x - 0.45, p.y) > 0.75; }
bool in_heart(Point p) {
  const double x = p.x * 1.2, y = -p.y * 1.2 + 0.15, a = x * x + y * y - 0.9;
  return a * a * a < x * x * y * y * y;
}
bool in_bars(Point p) {
  return std::abs(p.x) < 0.9 && std::abs(p.y) < 0.95 && std::fmod(p.y + 0.95, 0.76) < 0.38;
}

struct Shape {
  const char* name;
  bool (*contains)(Point);
};

constexpr std::array<Shape, kClasses> kShapes = {{{"circle", in_circle},
                                                  {"square", in_square},
                                                  {"triangle", in_triangle},
                                                  {"ring", in_ring},
                                                  {"plus", in_plus},
                                                  {"cross", in_cross},
                                                  {"star", in_star},
                                                  {"moon", in_moon},
                                                  {"heart", in_heart},
                                                  {"bars", in_bars}}};

using Color = std::array<double, 3>;

Color draw_color(Random& random, double low, double high) {
  return {random.uniform(low, high), random.uniform(low, high), random.uniform(low, high)};
}

/// The share of a pixel that the shape covers, 0..1, from 4 x 4 points in the pixel.
double coverage(const Shape& shape, double x, double y, double radius, double angle) {
  const double c = std::cos(angle) / radius, s = std::sin(angle) / radius;
  int inside = 0;
  for (int i = 0; i < 16; ++i) {
    const double dx = x + (i % 4 + 0.5) / 4, dy = y + (i / 4 + 0.5) / 4;
    inside += shape.contains({c * dx + s * dy, c * dy - s * dx});
  }
  return inside / 16.0;
}

/// The drawn images, as JPEG streams in memory.
class ShapesSource final : public Source {
 public:
  ShapesSource(bool is_train, int64_t samples, int64_t size) : size_{size, size} {
    for (int64_t i = 0; i < samples; ++i)
      files_.push_back(encode_jpeg(draw_shape(is_train, i, size).view(), kJpegQuality));
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t index) const override { return index % kClasses; }
  std::string name(int64_t index) const override { return "shape " + std::to_string(index); }
  StoredImage open(int64_t index, ReadScratch&) const override {
    return {.jpeg = true, .bytes = files_[static_cast<size_t>(index)], .size = size_};
  }

 private:
  ImageSize size_;
  std::vector<std::vector<uint8_t>> files_;
};

/// The .beton file with the set's images, which are drawn unless the file exists.
std::string drawn_file(const ShapesDataset::Params& params) {
  const int64_t samples = *ShapesDataset(params).published_samples();
  const fs::path folder = params.ffcv_dir.empty() ? fs::temp_directory_path() /
                                                        ("composer-" + std::to_string(::getuid()))
                                                  : fs::path(params.ffcv_dir);
  const std::string part = params.is_train ? "train" : "val";
  const fs::path file =
      folder / ("shapes" + std::to_string(kDrawing) + "_" + part + "_" + std::to_string(samples) +
                "_" + std::to_string(params.size) + ".beton");
  std::error_code error;
  if (fs::is_regular_file(file, error)) return file.string();
  fs::create_directories(folder, error);
  if (error) throw UserError("ffcv_dir: " + folder.string() + ": " + error.message());
  WriteOptions options;
  options.pack.mode = WriteMode::jpg;
  write_beton(ShapesSource(params.is_train, samples, params.size), file, options);
  return file.string();
}

Normalization normalization() { return {{127.5, 127.5, 127.5}, {64, 64, 64}}; }

}  // namespace

Image draw_shape(bool is_train, int64_t index, int64_t size) {
  Random random(0, is_train ? "data.shapes.train" : "data.shapes.val", 0,
                static_cast<uint64_t>(index));
  const Shape& shape = kShapes[static_cast<size_t>(index % kClasses)];
  const auto length = static_cast<double>(size);
  const double radius = length * random.uniform(0.22, 0.4);
  const double x0 = random.uniform(radius, length - radius),
               y0 = random.uniform(radius, length - radius);
  const double angle = random.uniform(-0.3, 0.3);
  const Color from = draw_color(random, 0, 140), to = draw_color(random, 0, 140);
  const Color fill = draw_color(random, 120, 255);
  const double noise = random.uniform(8, 40), slope = random.uniform(0, 2 * std::numbers::pi);

  Image image;
  image.resize(size, size, 3);
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      const double px = static_cast<double>(x), py = static_cast<double>(y);
      const double along =
          0.5 +
          ((px / length - 0.5) * std::cos(slope) + (py / length - 0.5) * std::sin(slope)) / 1.5;
      const double covered = coverage(shape, px - x0, py - y0, radius, angle);
      for (size_t c = 0; c < 3; ++c) {
        const double ground = from[c] + (to[c] - from[c]) * along;
        const double value = ground + (fill[c] - ground) * covered + random.uniform(-noise, noise);
        image.row(y)[x * 3 + static_cast<int64_t>(c)] =
            static_cast<uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
      }
    }
  }
  return image;
}

std::unique_ptr<Loader> ShapesDataset::open(const LoaderOptions& options) const {
  const auto kind = params_.is_train ? Transform::Kind::pad_and_crop : Transform::Kind::whole;
  return make_image_loader(
      std::make_shared<BetonSource>(drawn_file(with_part_to_open(params_, options)), 3),
      {.transform = {.kind = kind, .size = image_size(), .padding = params_.size / 8},
       .normalization = normalization(),
       .order = params_.shuffle ? OrderKind::random : OrderKind::sequential,
       .drop_last = params_.drop_last,
       .training = params_.is_train},
      options);
}

std::optional<Preparation> ShapesDataset::preparation(const LoaderOptions&) const {
  return fitted(3, image_size(), normalization());
}

std::vector<std::string> ShapesDataset::class_names() const {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

}  // namespace composer
