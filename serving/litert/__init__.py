"""LiteRT files: conversion, metadata, and the reader without TensorFlow."""
