#include "inference/onnx/resize_nodes.h"

namespace composer {
namespace {

constexpr int64_t kFloatNumbers = 1;  ///< TensorProto.DataType

class ResizeNodes {
  using Integers = std::vector<int64_t>;

 public:
  ResizeNodes(OnnxGraph& onnx, const Preparation& preparation, const std::string& images)
      : onnx_(onnx),
        images_(images),
        size_{preparation.size.height, preparation.size.width},
        channels_(preparation.channels),
        crop_(integers("crop", size_)) {
    // [height, width], in integers: the longer side is rounded down, as torchvision does.
    whole_ = node("Shape", {images}, "size", {{"start", int64_t{1}}, {"end", int64_t{3}}});
    const auto shorter = node("ReduceMin", {whole_}, "shorter");
    const auto length = integers("resize_size", {preparation.resize_size});
    resized_ = node("Div", {node("Mul", {whole_, length}, "enlarged"), shorter}, "resized_size");
    // Half of what is left over, halves to the even neighbour.
    const auto two = integers("two", {2});
    const auto left = node("Sub", {resized_, crop_}, "left");
    const auto half = node("Div", {left, two}, "half");
    const auto up = node("Mul", {node("Mod", {left, two}, "odd"), node("Mod", {half, two}, "up")},
                         "rounded_up");
    start_ = node("Add", {half, up}, "start");
  }

  std::string by_resize() {
    const auto all =
        node("Resize", {images_, "", "", resized_}, "resized",
             {{"mode", std::string("linear")},
              {"antialias", int64_t{1}},
              {"exclude_outside", int64_t{1}},  // else weights outside darken the borders
              {"axes", Integers{1, 2}}});
    const auto end = node("Add", {start_, crop_}, "end");
    const auto cropped = node("Slice", {all, start_, end, integers("axes", {1, 2})}, "cropped");
    const auto shape = integers("shape", {-1, size_[0], size_[1], channels_});
    return planes(onnx_, node("Reshape", {cropped, shape}, "sized"));
  }

  std::string by_matrices() {
    const auto across = node("Transpose", {weights(1)}, "across", {{"perm", Integers{1, 0}}});
    const auto rows = rounded(node("MatMul", {planes(onnx_, images_), across}, "rows"));
    const auto all = rounded(node("MatMul", {weights(0), rows}, "resized"));
    const auto shape = integers("shape", {-1, channels_, size_[0], size_[1]});
    return node("Reshape", {all, shape}, "sized");
  }

 private:
  std::string node(const std::string& kind, const std::vector<std::string>& inputs,
                   const std::string& output, const std::vector<OnnxAttribute>& attributes = {}) {
    const auto name = onnx_.unique("images." + output);
    onnx_.add_node(kind, inputs, name, attributes);
    return name;
  }
  std::string integers(const std::string& name, const Integers& values) {
    return onnx_.add_constant("images." + name, at::tensor(values, at::kLong));
  }
  std::string number(const std::string& name, double value) {
    return onnx_.add_constant("images." + name, at::full({}, value, at::kFloat));
  }

  /// To whole levels, as Pillow rounds after each pass.
  std::string rounded(const std::string& values) {
    return node("Floor", {node("Add", {values, number("half_level", 0.5)}, "raised")}, "rounded");
  }

  /// The number at `axis` of sizes [2], as a float32 scalar.
  std::string of_axis(const std::string& sizes, int64_t axis, const std::string& name) {
    const auto index = onnx_.add_constant("images.axis", at::full({}, axis, at::kLong));
    return node("Cast", {node("Gather", {sizes, index}, name + "_integer")}, name,
                {{"to", kFloatNumbers}});
  }

  /// [crop, side]: what each pixel of the image weighs in the pixels of the crop. The triangle
  /// around the middle of a pixel of the result reaches as far as two such pixels, at least as far
  /// as two of the image; the weights add up to 1.
  std::string weights(int64_t axis) {
    const auto one = number("one", 1), half = number("half_pixel", 0.5);
    const auto side = of_axis(whole_, axis, "side");
    const auto scale = node("Div", {side, of_axis(resized_, axis, "wanted")}, "scale");
    const auto places = onnx_.add_constant(
        "images.places", at::arange(size_[static_cast<size_t>(axis)], at::kFloat).view({-1, 1}));
    const auto first = node("Add", {of_axis(start_, axis, "first"), half}, "first_middle");
    const auto middles = node("Mul", {node("Add", {places, first}, "targets"), scale}, "middles");
    const auto pixels =
        node("Add", {node("Range", {number("zero", 0), side, one}, "pixels"), half}, "sources");
    const auto reach =
        node("Add", {node("Relu", {node("Sub", {scale, one}, "shrink")}, "more"), one}, "reach");
    const auto away = node("Abs", {node("Sub", {pixels, middles}, "offsets")}, "distances");
    const auto share = node("Div", {away, reach}, "shares");
    const auto heights = node("Relu", {node("Sub", {one, share}, "slopes")}, "heights");
    const auto sum = node("ReduceSum", {heights, integers("last", {-1})}, "sums");
    return node("Div", {heights, sum}, "weights");
  }

  OnnxGraph& onnx_;
  const std::string images_;
  const Integers size_;  ///< [height, width] of the crop
  const int64_t channels_;
  const std::string crop_;
  std::string whole_, resized_, start_;  ///< names of int64 [2]: height, width
};

}  // namespace

std::string why_no_resize_nodes(const Preparation& preparation, const std::string& filter) {
  if (preparation.resize_size <= 0) return "its evaluation does not resize images";
  if (filter != "triangle") return "its resize_filter is " + filter + ", not triangle";
  if (preparation.resize_size < std::max(preparation.size.height, preparation.size.width))
    return "its evaluation pads images of " + std::to_string(preparation.resize_size) +
           " pixels to a larger crop";
  return "";
}

std::string resized_planes(OnnxGraph& onnx, const std::string& images,
                           const Preparation& preparation, bool portable) {
  ResizeNodes nodes(onnx, preparation, images);
  return portable ? nodes.by_matrices() : nodes.by_resize();
}

std::string planes(OnnxGraph& onnx, const std::string& images) {
  const auto numbers = onnx.unique("images.float"), output = onnx.unique("images.planes");
  onnx.add_node("Cast", {images}, numbers, {{"to", kFloatNumbers}});
  onnx.add_node("Transpose", {numbers}, output, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  return output;
}

}  // namespace composer
