#include "tests/check.hpp"

int main() { return check::run_all(); }
