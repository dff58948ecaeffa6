"""What is tried against the fence. See ../test_fence.py."""
