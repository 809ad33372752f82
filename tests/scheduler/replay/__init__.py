"""The controllers themselves over estates in played time."""
