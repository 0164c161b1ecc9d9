package model

func Cost(dependency string, u Usage) *float64 { return nil }
