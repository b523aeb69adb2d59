#include "tests/testing/random_values.h"

namespace attnd::testing {

float RandomValues::Next() {
  switch (distribution_) {
    case Distribution::kNormal:
      return normal_(generator_);
    case Distribution::kUniform:
      return uniform_(generator_);
    case Distribution::kOutliers:
      return generator_() % 100 == 0 ? 50.0f * normal_(generator_) : normal_(generator_);
    case Distribution::kConstant:
      return 0.5f;
  }
  return 0.0f;
}

}  // namespace attnd::testing
