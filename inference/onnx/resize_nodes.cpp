#include "inference/onnx/resize_nodes.h"

#include <vector>

namespace composer {
namespace {

constexpr int64_t kFloatNumbers = 1;  ///< TensorProto.DataType

class ResizeNodes {
  using Integers = std::vector<int64_t>;

 public:
  ResizeNodes(OnnxGraph& onnx, const Preparation& preparation, const std::string& images,
              bool bicubic)
      : onnx_(onnx),
        images_(images),
        size_{preparation.size.height, preparation.size.width},
        channels_(preparation.channels),
        bicubic_(bicubic),
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
    std::vector<OnnxAttribute> attributes{
        {"mode", std::string(bicubic_ ? "cubic" : "linear")},
        {"antialias", int64_t{1}},
        {"exclude_outside", int64_t{1}},  // else weights outside darken the borders
        {"axes", Integers{1, 2}}};
    if (bicubic_) attributes.push_back({"cubic_coeff_a", -0.5F});
    const auto all = node("Resize", {images_, "", "", resized_}, "resized", attributes);
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
    const auto whole =
        node("Floor", {node("Add", {values, number("half_level", 0.5)}, "raised")}, "rounded");
    if (!bicubic_) return whole;
    return node("Clip", {whole, number("darkest", 0), number("brightest", 255)}, "clipped");
  }

  /// The number at `axis` of sizes [2], as a float32 scalar.
  std::string of_axis(const std::string& sizes, int64_t axis, const std::string& name) {
    const auto index = onnx_.add_constant("images.axis", at::full({}, axis, at::kLong));
    return node("Cast", {node("Gather", {sizes, index}, name + "_integer")}, name,
                {{"to", kFloatNumbers}});
  }

  /// [crop, side]: what each pixel of the image weighs in the pixels of the crop. The filter's
  /// unit is a pixel of the result, and at least one of the image; the weights add up to 1.
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
    const auto unit =
        node("Add", {node("Relu", {node("Sub", {scale, one}, "shrink")}, "more"), one}, "unit");
    const auto away = node("Abs", {node("Sub", {pixels, middles}, "offsets")}, "offset_sizes");
    const auto heights = filter(node("Div", {away, unit}, "distances"));
    const auto sum = node("ReduceSum", {heights, integers("last", {-1})}, "sums");
    return node("Div", {heights, sum}, "weights");
  }

  /// The filter's values at distances from its middle.
  std::string filter(const std::string& distances) {
    const auto one = number("one", 1), two = number("two", 2);
    const auto inner = node("Relu", {node("Sub", {one, distances}, "inside")}, "inner");
    if (!bicubic_) return inner;
    // Keys's filter with a = -0.5: v * v * (v - 1) / 2 + u * u * (1 - 2 * u), where u and v are
    // what the distance lacks to 1 and 2, at least 0.
    const auto outer = node("Relu", {node("Sub", {two, distances}, "around")}, "outer");
    const auto square = [&](const std::string& x) { return node("Mul", {x, x}, "square"); };
    const auto tail =
        node("Mul",
             {node("Mul", {square(outer), node("Sub", {outer, one}, "beyond")}, "tail_twice"),
              number("half", 0.5)},
             "tail");
    const auto falling = node("Sub", {one, node("Mul", {inner, two}, "inner_twice")}, "falling");
    return node("Add", {tail, node("Mul", {square(inner), falling}, "top")}, "heights");
  }

  OnnxGraph& onnx_;
  const std::string images_;
  const Integers size_;  ///< [height, width] of the crop
  const int64_t channels_;
  const bool bicubic_;
  const std::string crop_;
  std::string whole_, resized_, start_;  ///< names of int64 [2]: height, width
};

}  // namespace

std::string resized_planes(OnnxGraph& onnx, const std::string& images,
                           const Preparation& preparation, const std::string& filter,
                           bool portable) {
  ResizeNodes nodes(onnx, preparation, images, filter == "bicubic");
  return portable ? nodes.by_matrices() : nodes.by_resize();
}

std::string planes(OnnxGraph& onnx, const std::string& images) {
  const auto numbers = onnx.unique("images.float"), output = onnx.unique("images.planes");
  onnx.add_node("Cast", {images}, numbers, {{"to", kFloatNumbers}});
  onnx.add_node("Transpose", {numbers}, output, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  return output;
}

}  // namespace composer
