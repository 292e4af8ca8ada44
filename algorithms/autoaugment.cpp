#include "algorithms/autoaugment.h"

#include "algorithms/augmentation/primitives.h"

namespace composer {
namespace {

using enum ImageOp;

constexpr AutoAugment::Policy imagenet = {{
    {{{posterize, 0.4, 8}, {rotate, 0.6, 9}}}, {{{solarize, 0.6, 5}, {autocontrast, 0.6}}},
    {{{equalize, 0.8}, {equalize, 0.6}}},      {{{posterize, 0.6, 7}, {posterize, 0.6, 6}}},
    {{{equalize, 0.4}, {solarize, 0.2, 4}}},   {{{equalize, 0.4}, {rotate, 0.8, 8}}},
    {{{solarize, 0.6, 3}, {equalize, 0.6}}},   {{{posterize, 0.8, 5}, {equalize, 1}}},
    {{{rotate, 0.2, 3}, {solarize, 0.6, 8}}},  {{{equalize, 0.6}, {posterize, 0.4, 6}}},
    {{{rotate, 0.8, 8}, {color, 0.4, 0}}},     {{{rotate, 0.4, 9}, {equalize, 0.6}}},
    {{{equalize, 0}, {equalize, 0.8}}},        {{{invert, 0.6}, {equalize, 1}}},
    {{{color, 0.6, 4}, {contrast, 1, 8}}},     {{{rotate, 0.8, 8}, {color, 1, 2}}},
    {{{color, 0.8, 8}, {solarize, 0.8, 7}}},   {{{sharpness, 0.4, 7}, {invert, 0.6}}},
    {{{shear_x, 0.6, 5}, {equalize, 1}}},      {{{color, 0.4, 0}, {equalize, 0.6}}},
    {{{equalize, 0.4}, {solarize, 0.2, 4}}},   {{{solarize, 0.6, 5}, {autocontrast, 0.6}}},
    {{{invert, 0.6}, {equalize, 1}}},          {{{color, 0.6, 4}, {contrast, 1, 8}}},
    {{{equalize, 0.8}, {equalize, 0.6}}},
}};

constexpr AutoAugment::Policy cifar10 = {{
    {{{invert, 0.1}, {contrast, 0.2, 6}}},
    {{{rotate, 0.7, 2}, {translate_x, 0.3, 9}}},
    {{{sharpness, 0.8, 1}, {sharpness, 0.9, 3}}},
    {{{shear_y, 0.5, 8}, {translate_y, 0.7, 9}}},
    {{{autocontrast, 0.5}, {equalize, 0.9}}},
    {{{shear_y, 0.2, 7}, {posterize, 0.3, 7}}},
    {{{color, 0.4, 3}, {brightness, 0.6, 7}}},
    {{{sharpness, 0.3, 9}, {brightness, 0.7, 9}}},
    {{{equalize, 0.6}, {equalize, 0.5}}},
    {{{contrast, 0.6, 7}, {sharpness, 0.6, 5}}},
    {{{color, 0.7, 7}, {translate_x, 0.5, 8}}},
    {{{equalize, 0.3}, {autocontrast, 0.4}}},
    {{{translate_y, 0.4, 3}, {sharpness, 0.2, 6}}},
    {{{brightness, 0.9, 6}, {color, 0.2, 8}}},
    {{{solarize, 0.5, 2}, {invert, 0}}},
    {{{equalize, 0.2}, {autocontrast, 0.6}}},
    {{{equalize, 0.2}, {equalize, 0.6}}},
    {{{color, 0.9, 9}, {equalize, 0.6}}},
    {{{autocontrast, 0.8}, {solarize, 0.2, 8}}},
    {{{brightness, 0.1, 3}, {color, 0.7, 0}}},
    {{{solarize, 0.4, 5}, {autocontrast, 0.9}}},
    {{{translate_y, 0.9, 9}, {translate_y, 0.7, 9}}},
    {{{autocontrast, 0.9}, {solarize, 0.8, 3}}},
    {{{equalize, 0.8}, {invert, 0.1}}},
    {{{translate_y, 0.7, 9}, {autocontrast, 0.9}}},
}};

constexpr AutoAugment::Policy svhn = {{
    {{{shear_x, 0.9, 4}, {invert, 0.2}}},          {{{shear_y, 0.9, 8}, {invert, 0.7}}},
    {{{equalize, 0.6}, {solarize, 0.6, 6}}},       {{{invert, 0.9}, {equalize, 0.6}}},
    {{{equalize, 0.6}, {rotate, 0.9, 3}}},         {{{shear_x, 0.9, 4}, {autocontrast, 0.8}}},
    {{{shear_y, 0.9, 8}, {invert, 0.4}}},          {{{shear_y, 0.9, 5}, {solarize, 0.2, 6}}},
    {{{invert, 0.9}, {autocontrast, 0.8}}},        {{{equalize, 0.6}, {rotate, 0.9, 3}}},
    {{{shear_x, 0.9, 4}, {solarize, 0.3, 3}}},     {{{shear_y, 0.8, 8}, {invert, 0.7}}},
    {{{equalize, 0.9}, {translate_y, 0.6, 6}}},    {{{invert, 0.9}, {equalize, 0.6}}},
    {{{contrast, 0.3, 3}, {rotate, 0.8, 4}}},      {{{invert, 0.8}, {translate_y, 0, 2}}},
    {{{shear_y, 0.7, 6}, {solarize, 0.4, 8}}},     {{{invert, 0.6}, {rotate, 0.8, 4}}},
    {{{shear_y, 0.3, 7}, {translate_x, 0.9, 3}}},  {{{shear_x, 0.1, 6}, {invert, 0.6}}},
    {{{solarize, 0.7, 2}, {translate_y, 0.6, 7}}}, {{{shear_y, 0.8, 4}, {invert, 0.8}}},
    {{{shear_x, 0.7, 9}, {translate_y, 0.8, 3}}},  {{{shear_y, 0.8, 5}, {autocontrast, 0.7}}},
    {{{shear_x, 0.7, 2}, {invert, 0.1}}},
}};

bool has_sign(ImageOp op) {
  switch (op) {
    case posterize:
    case solarize:
    case autocontrast:
    case equalize:
    case invert:
      return false;
    default:
      return true;
  }
}

}  // namespace

const AutoAugment::Policy& AutoAugment::policy(const std::string& name) {
  return name == "imagenet" ? imagenet : name == "cifar10" ? cifar10 : svhn;
}

double AutoAugment::magnitude(ImageOp op, int64_t level, ImageSize size) {
  constexpr int64_t levels = 10;
  const auto up_to = [&](double last) { return evenly_spaced(0, last, levels, level); };
  switch (op) {
    case shear_x:
    case shear_y:
      return up_to(0.3);
    case translate_x:
      return up_to(150.0 / 331.0 * static_cast<double>(size.width));
    case translate_y:
      return up_to(150.0 / 331.0 * static_cast<double>(size.height));
    case rotate:
      return up_to(30);
    case brightness:
    case color:
    case contrast:
    case sharpness:
      return up_to(0.9);
    case posterize:
      return posterize_bits(4, levels, level);
    case solarize:
      return evenly_spaced(255, 0, levels, level);
    default:
      return 0;
  }
}

Steps draw_autoaugment(Random& random, ImageSize size, const AutoAugment::Params& params) {
  const auto& policy = AutoAugment::policy(params.policy);
  Steps steps;
  for (const auto& part : policy[static_cast<size_t>(random.below(policy.size()))]) {
    const bool done = random.uniform() < part.probability, negative = random.below(2) == 0;
    if (!done) continue;
    const double magnitude = AutoAugment::magnitude(part.op, part.level, size);
    steps.push_back({part.op, negative && has_sign(part.op) ? -magnitude : magnitude});
  }
  return steps;
}

AutoAugment::AutoAugment(const Params& params)
    : DrawnPerImage("autoaugment.image", params.where, [params](Random& random, ImageSize size) {
        return draw_autoaugment(random, size, params);
      }) {}

}  // namespace composer
