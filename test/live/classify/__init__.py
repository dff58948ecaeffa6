"""What the classifier is asked, and by which program. See ../test_classify.py."""
