// The expert that a row goes through, as the choice leaves it for the products. experts.go has the same layout.
#pragma once

#include "integers.cuh"

struct Chosen {
    uint64_t units, outputs; // addresses of the weights of both products
    float share;
    int32_t expert;
};
